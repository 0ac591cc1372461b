//! One body before an engine: what a compaction of it would be, and what a model would be asked about what that folds.

use longhaul_engine::Transcript;
use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Engine, Fate, Plan, Report, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::rewrite::Refused;
use longhaul_engine::summary::{Answer, Ask, Covers, End};

use crate::failure::Failure;
use crate::input;

/// A body, and what is known of it.
pub(crate) struct Folding<'f, 't> {
    pub(crate) engine: &'f dyn Engine,
    pub(crate) policy: &'f Policy,
    pub(crate) known: &'f mut Known,
    pub(crate) transcript: &'f Transcript<'t>,
    /// What was decided about it before.
    pub(crate) ledger: &'f Ledger,
    /// How messages name it.
    pub(crate) shown: &'f str,
}

impl Folding<'_, '_> {
    /// A compaction of it, if one is due.
    pub(crate) fn plan(&mut self, wish: &Wish) -> Result<Plan, Failure> {
        let planned = self.engine.plan(self.policy, wish, self.ledger, self.known, self.transcript);
        planned.map_err(|refused| self.ours(&refused))
    }

    /// What a model would be asked about what a compaction folded; nothing where that is nothing to ask about.
    pub(crate) fn ask(&mut self, wish: &Wish, report: &Report) -> Result<Option<Ask>, Failure> {
        let gone = report.blocks.iter().filter(|block| block.fate != Fate::Digested);
        // A size that was asked for folds more than the policy would: what stays begins behind the last that went.
        let keep_from = wish.keep_from.or(gone.map(|block| block.at + 1).max());
        let wish = Wish { keep_from, ..wish.clone() };
        let asked = self.engine.ask(self.policy, &wish, self.ledger, self.known, self.transcript);
        let mut asked = asked.map_err(|refused| self.ours(&refused))?;
        if let (Some(ask), Some(wanted), Some(made)) = (&mut asked, wish.to_tokens, report.checkpoint) {
            // In that size there is only so much room for it.
            let beside = report.tokens.after - made.tokens;
            ask.budget = ask.budget.min((wanted - beside).max(made.tokens));
        }
        Ok(asked)
    }

    fn ours(&self, refused: &Refused) -> Failure {
        Failure::World(format!("a mistake of ours kept {} as it is: {refused}", self.shown))
    }
}

/// Refuses to keep everything from a message on that is not there.
pub(crate) fn refuse_behind(
    keep_from: Option<usize>,
    transcript: &Transcript<'_>,
    shown: &str,
) -> Result<(), Failure> {
    let last = transcript.message_count().saturating_sub(1);
    match keep_from.filter(|from| *from > last) {
        Some(from) => Err(Failure::Wrong(format!(
            "--keep-from {from} is behind the end of {shown}, whose messages are 0 to {last}"
        ))),
        None => Ok(()),
    }
}

/// A summary that is handed in: it is about whatever goes, and whoever hands it in answers for that.
pub(crate) fn handed_in(path: &std::path::Path) -> Result<Answer, Failure> {
    let text = input::read_text(path)?;
    Ok(Answer { covers: Covers::AllThatGoes, text, by: path.display().to_string(), end: End::Whole })
}
