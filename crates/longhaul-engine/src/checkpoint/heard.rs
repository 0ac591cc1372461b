//! What is worth saying beside what a model told: what it says already is not, and what it told wrong is worth more.

use super::Section;
use super::brief::Brief;
use super::forms::Candidate;
use super::sketch::{Sketch, What};
use super::statement::{Tells, Told};
use crate::evidence::Bag;
use crate::tokens::Tokens;

/// What shares so much with what was told is said by it.
const SAID: f32 = 0.75;
/// A rule is a rule by its exact words.
const SAID_RULE: f32 = 0.9;
/// A summary of so much of the budget is a whole one.
const WHOLE: f64 = 0.4;
/// What is worth more because it was told wrong.
const WRONG: f64 = 4.0;

/// What was told, as what it is about.
pub(super) struct Heard<'d> {
    told: Told<'d>,
    all: Bag,
    /// Of what it tells that went wrong.
    troubles: Bag,
    wishes: Vec<Bag>,
    /// How much of a handover it is: nothing of one at 0, a whole one at 1.
    fullness: f64,
}

impl<'d> Heard<'d> {
    pub(super) fn of(told: Told<'d>, brief: &Brief<'_>) -> Self {
        let (mut all, mut troubles, mut wishes) = (Bag::default(), Bag::default(), Vec::new());
        let tokens: Tokens =
            told.statements.iter().map(|statement| brief.counter.count(statement.text.as_str())).sum();
        let fullness = (tokens.number() as f64 / brief.budget.share(WHOLE).number().max(1) as f64).min(1.0);
        for statement in told.statements {
            let bag = Bag::of(statement.text.as_str());
            all.join(&bag);
            if statement.tells == Tells::Trouble {
                troubles.join(&bag);
            }
            if matches!(statement.section, Section::Constraints | Section::Goal | Section::ActiveTask) {
                wishes.push(bag);
            }
        }
        Self { told, all, troubles, wishes, fullness }
    }

    /// What a candidate is worth beside what was told; nothing where that says it already.
    pub(super) fn worth(&self, sketch: &Sketch<'_>, candidate: &Candidate) -> Option<f64> {
        let covered = sketch.unit().is_none_or(|unit| self.told.covers.contains(&unit));
        if !covered || matches!(sketch.what, What::Told(_) | What::Said(..) | What::Relayed(_)) {
            return Some(1.0);
        }
        if sketch.block().is_some_and(|at| self.told.wrong.contains(&at)) {
            return Some(WRONG);
        }
        let own = Bag::of(&candidate.shortest());
        if matches!(sketch.what, What::Rule(_) | What::Carried(Section::Constraints, _)) {
            let says = |wish: &Bag| own.share_in(wish) >= SAID_RULE && own.limits().is_subset(wish.limits());
            return (!self.wishes.iter().any(says)).then_some(1.0);
        }
        // A failure is said by what tells of one, and not by what calls it a success.
        let share = own.share_in(if sketch.is_failure() { &self.troubles } else { &self.all });
        // What the agent thought on the way is for the summary to tell, right or wrong; where there is none, it is all there is.
        let thought = matches!(sketch.what, What::Answer(..) | What::Heard(_));
        let wanted = if thought { 1.0 - self.fullness } else { 1.0 };
        (share < SAID && wanted > 0.0).then(|| f64::from(1.0 - share) * wanted)
    }
}
