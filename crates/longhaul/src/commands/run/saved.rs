//! The line at the end of a run: what went through, and what became of it.

use longhaul_engine::prices::Dollars;
use longhaul_server::gateway::Sums;

/// What was saved, in one line; what was not is said as plainly.
pub(super) fn line(sums: &Sums, program: &str) -> String {
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
    if sums.without > Dollars::ZERO {
        let Dollars(less) = Dollars(sums.without.0 - sums.spent.0);
        let (amount, word) = (Dollars(less.abs()), if less < 0.0 { "more" } else { "less" });
        said.push(format!("{} spent, {amount} {word} than without", sums.spent));
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
            without: Dollars(3.5),
            ..Sums::default()
        };
        assert_eq!(
            line(&sums, "claude"),
            "42 requests, 1 compaction, 1,200,000 → 400,000 tokens, 91 % read from cache, $1.25 spent, $2.25 less than without"
        );
        let worse = Sums { without: Dollars(1.0), bypassed: 2, ..sums };
        assert!(
            line(&worse, "claude").ends_with("2 requests as they came, $1.25 spent, $0.25 more than without")
        );
        assert!(line(&Sums::default(), "claude").starts_with("no request of claude was answered by a model"));
    }
}
