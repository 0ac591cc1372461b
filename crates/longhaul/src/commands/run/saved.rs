//! The line at the end of a run: what went through, and what became of it.

use longhaul_engine::prices::Dollars;
use longhaul_server::gateway::Sums;

/// What was saved, in one line; what was not is said as plainly.
pub(super) fn line(sums: &Sums, program: &str) -> String {
    if sums.requests == 0 && sums.commands > 0 {
        return format!("{} answered by Longhaul, no request to a model", counted(sums.commands, "command"));
    }
    if sums.requests == 0 {
        return format!(
            "no request of {program} was answered by a model; it may have an address of its own configured, or not have asked one"
        );
    }
    let mut said = vec![counted(sums.requests, "request"), counted(sums.compactions, "compaction")];
    said.push(format!("{} → {} tokens", sums.before, sums.after));
    if sums.input.number() > 0 {
        let share = sums.read.number() as f64 / sums.input.number() as f64;
        said.push(format!("{:.0} % read from cache", share * 100.0));
    }
    if sums.bypassed > 0 {
        said.push(format!("{} as they came", counted(sums.bypassed, "request")));
    }
    if let Some(kind) = sums.store_trouble {
        said.push(format!(
            "the store was unavailable ({kind}) for {}, kept in memory only",
            counted(sums.without_store, "request")
        ));
    }
    if sums.spent > Dollars::ZERO {
        said.push(format!("{} spent", sums.spent));
    }
    // Without a compaction there is nothing to compare with, and small errors of the estimate would read like a loss.
    if let Some(Dollars(less)) = sums.saved.filter(|_| sums.compactions > 0) {
        let (amount, word) = (Dollars(less.abs()), if less < 0.0 { "more" } else { "less" });
        said.push(format!("{amount} {word} than with no compaction"));
    }
    said.join(", ")
}

fn counted(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_engine::Tokens;

    #[test]
    fn what_was_saved_is_one_line_and_a_loss_is_in_plain_sight() {
        let sums = Sums {
            requests: 42,
            compactions: 1,
            before: Tokens(1_200_000),
            after: Tokens(400_000),
            input: Tokens(400_000),
            read: Tokens(364_000),
            spent: Dollars(1.25),
            saved: Some(Dollars(2.25)),
            ..Sums::default()
        };
        assert_eq!(
            line(&sums, "claude"),
            "42 requests, 1 compaction, 1,200,000 → 400,000 tokens, 91 % read from cache, $1.25 spent, $2.25 less than with no compaction"
        );
        let worse = Sums { saved: Some(Dollars(-0.25)), bypassed: 2, ..sums };
        assert!(
            line(&worse, "claude")
                .ends_with("2 requests as they came, $1.25 spent, $0.25 more than with no compaction")
        );
        let command = Sums { commands: 1, ..Sums::default() };
        assert_eq!(line(&command, "claude"), "1 command answered by Longhaul, no request to a model");
        let sick = Sums { without_store: 3, store_trouble: Some("full"), ..worse };
        assert!(
            line(&sick, "claude")
                .contains(", the store was unavailable (full) for 3 requests, kept in memory only, ")
        );
        assert!(line(&Sums::default(), "claude").starts_with("no request of claude was answered by a model"));
    }
}
