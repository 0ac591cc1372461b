//! A compaction with a model's words: planned by code first, so that nobody is asked, or paid, for what is not folded.

use longhaul_engine::plan::{Outcome, Plan, Wish};

use super::job::Call;
use crate::failure::Failure;
use crate::folding::Folding;
use crate::summarizer::{self, About, Asked};

/// What a model was asked about a body. The plan may have to be made again, but nobody is asked twice.
#[derive(Default)]
pub(super) struct Asking {
    asked: Option<Asked>,
}

impl Call<'_> {
    /// A compaction; where it folds something and a model is to be asked, with what that says about it.
    pub(super) fn plan(
        &self,
        folding: &mut Folding<'_, '_>,
        wish: &Wish,
        asking: &mut Asking,
    ) -> Result<Plan, Failure> {
        let plan = folding.plan(wish)?;
        let Some(summarizer) = &self.summarizer else { return Ok(plan) };
        let mut outcome = match plan {
            Plan::Ready(outcome) => outcome,
            Plan::Leave(report) => return Ok(Plan::Leave(report)),
        };
        if outcome.report.checkpoint.is_none() {
            outcome.report.notes.push("nothing new is folded, so no model is asked".to_owned());
            return Ok(Plan::Ready(outcome));
        }
        if asking.asked.is_none() {
            let Some(ask) = folding.ask(wish, &outcome.report)? else {
                let note = "what is folded is nothing to ask a model about; the checkpoint is made by code";
                outcome.report.notes.push(note.to_owned());
                return Ok(Plan::Ready(outcome));
            };
            let (policy, dialect) = (folding.policy, folding.transcript.dialect);
            let about = About { policy, dialect, rules: &wish.rules, key: wish.key.clone() };
            asking.asked = Some(summarizer.ask(ask, summarizer::mark()?, &about));
        }
        let Some(asked) = &asking.asked else { return Ok(Plan::Ready(outcome)) };
        let mut told = match &asked.answer {
            Some(answer) => folding.plan(&Wish { summary: Some(answer.clone()), ..wish.clone() })?,
            None => Plan::Ready(outcome),
        };
        let (Plan::Leave(report) | Plan::Ready(Outcome { report, .. })) = &mut told;
        asked.enter(report);
        Ok(told)
    }
}
