//! The line at the end of a run: its requests, tokens and costs.

use longhaul_engine::prices::Dollars;
use longhaul_server::gateway::GatewayTotals;

use crate::output;

/// Sums up the run in one line, whether it saved money or not.
pub(super) fn totals_line(totals: &GatewayTotals, program: &str) -> String {
    if totals.requests == 0 && totals.commands > 0 {
        return format!("{} answered by Longhaul, no request to a model", pluralize(totals.commands, "command"));
    }
    if totals.requests == 0 {
        return format!(
            "no request of {program} was answered by a model; it may have its own address configured, or have sent none"
        );
    }
    let mut parts = vec![pluralize(totals.requests, "request"), pluralize(totals.compactions, "compaction")];
    if totals.summaries > 0 {
        let summaries = pluralize(totals.summaries, "summary");
        parts.push(match totals.spent_on_summaries {
            cost if cost == Dollars::ZERO => summaries,
            cost => format!("{summaries} for {cost}"),
        });
    }
    parts.push(format!("{} → {} tokens", totals.tokens_before, totals.tokens_after));
    if totals.input_tokens.number() > 0 {
        let share = totals.cache_read_tokens.number() as f64 / totals.input_tokens.number() as f64;
        parts.push(format!("{:.0} % read from cache", share * 100.0));
    }
    if totals.bypassed > 0 {
        parts.push(format!("{} passed through unchanged", pluralize(totals.bypassed, "request")));
    }
    if let Some(kind) = totals.store_error_kind {
        parts.push(format!(
            "the store was unavailable ({kind}) for {}, kept in memory only",
            pluralize(totals.requests_without_store, "request")
        ));
    }
    if totals.spent > Dollars::ZERO {
        parts.push(format!("{} spent", totals.spent));
    }
    // Without a compaction there is nothing to compare, and small errors of the estimate would look like a
    // loss.
    if let Some(Dollars(less)) = totals.saved.filter(|_| totals.compactions > 0) {
        let (amount, word) = (Dollars(less.abs()), if less < 0.0 { "more" } else { "less" });
        parts.push(format!("{amount} {word} than without compaction"));
    }
    parts.join(", ")
}

fn pluralize(count: u64, noun: &str) -> String {
    output::pluralize(usize::try_from(count).unwrap_or(usize::MAX), noun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_engine::Tokens;

    #[test]
    fn what_was_saved_is_one_line_and_a_loss_is_in_plain_sight() {
        let totals = GatewayTotals {
            requests: 42,
            compactions: 1,
            tokens_before: Tokens(1_200_000),
            tokens_after: Tokens(400_000),
            input_tokens: Tokens(400_000),
            cache_read_tokens: Tokens(364_000),
            spent: Dollars(1.25),
            saved: Some(Dollars(2.25)),
            ..GatewayTotals::default()
        };
        assert_eq!(
            totals_line(&totals, "claude"),
            "42 requests, 1 compaction, 1,200,000 → 400,000 tokens, 91 % read from cache, $1.25 spent, $2.25 less than without compaction"
        );
        let with_loss = GatewayTotals { saved: Some(Dollars(-0.25)), bypassed: 2, ..totals };
        assert!(
            totals_line(&with_loss, "claude")
                .ends_with("2 requests passed through unchanged, $1.25 spent, $0.25 more than without compaction")
        );
        let with_summaries = GatewayTotals { summaries: 2, spent_on_summaries: Dollars(0.03), ..totals };
        assert!(totals_line(&with_summaries, "claude").contains("1 compaction, 2 summaries for $0.0300, 1,200,000 →"));
        let command = GatewayTotals { commands: 1, ..GatewayTotals::default() };
        assert_eq!(totals_line(&command, "claude"), "1 command answered by Longhaul, no request to a model");
        let with_store_error = GatewayTotals { requests_without_store: 3, store_error_kind: Some("full"), ..with_loss };
        assert!(
            totals_line(&with_store_error, "claude")
                .contains(", the store was unavailable (full) for 3 requests, kept in memory only, ")
        );
        assert!(
            totals_line(&GatewayTotals::default(), "claude")
                .starts_with("no request of claude was answered by a model")
        );
    }
}
