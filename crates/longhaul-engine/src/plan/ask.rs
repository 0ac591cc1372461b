//! What a model would be asked about the units that a compaction would fold now.

use std::collections::BTreeSet;

use super::bounds::Bounds;
use super::draft::Draft;
use super::ours::Ours;
use super::settle::Occasion;
use super::survey::Survey;
use super::work::{Past, Work, prune};
use super::{Trigger, Wish};
use crate::Tokens;
use crate::checkpoint::Checkpoint;
use crate::config::EngineName;
use crate::known::Known;
use crate::policy::Policy;
use crate::redact::{Content, Redacted, Redactor};
use crate::summary::{Ask, Covers, Material, harmless, turn};
use crate::transcript::{Transcript, UnitKind};

/// The ask; nothing where a compaction would fold nothing, or where pruning would be enough.
pub(super) fn ask(
    past: Past,
    policy: &Policy,
    wish: &Wish,
    known: &mut Known,
    transcript: &Transcript<'_>,
) -> Option<Ask> {
    let ours = Ours::of(policy, wish, transcript);
    let survey = &Survey::new(policy, wish, known, &ours);
    let bounds = Bounds::by_policy(survey);
    let gone = bounds.gone(survey);
    if !bounds.free().any(|unit| bounds.is_new(unit) && gone.contains(&unit)) {
        return None;
    }
    let mut redactor = Redactor::with_memory(wish.rules.clone(), wish.keep.key(), known.clean());
    let target = policy.goal;
    if wish.trigger != Trigger::Manual && bounds.could_be_enough(survey, target) {
        let reason = String::new();
        let occasion =
            Occasion { engine: EngineName::COMPRESSOR, reason, target, floor: Tokens::ZERO, zone: None };
        let mut draft = Draft::new(survey);
        prune(&mut Work::new(survey, &occasion, past, known, &mut redactor), &mut draft, &|unit| {
            bounds.may_shrink(unit)
        });
        if draft.total <= target {
            return None;
        }
    }
    let replaced: Tokens = gone.iter().map(|unit| survey.units[*unit]).sum();
    let budget = policy.checkpoint.tokens(replaced);
    let focus = survey.focus().map(|focus| redactor.redact(&focus, Content::Text).text.on_one_line(400));
    let material = Material {
        turns: turns(survey, &gone, &mut redactor),
        previous: previous(past, survey, &gone, &mut redactor),
        focus,
    };
    Some(Ask::new(Covers::units(survey.transcript, &gone), material, budget, survey.meter.counter))
}

fn turns(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>, redactor: &mut Redactor) -> Vec<Redacted> {
    let is_turn = |unit: &&usize| Some(**unit) != survey.checkpoint();
    let turns = gone.iter().filter(is_turn).map(|unit| turn(survey.transcript, *unit, redactor));
    turns.filter(|turn| !turn.as_str().is_empty()).collect()
}

/// What the checkpoint says that goes too, without the words around it, and without what is not for a model to tell again.
fn previous(
    past: Past,
    survey: &Survey<'_, '_>,
    gone: &BTreeSet<usize>,
    redactor: &mut Redactor,
) -> Option<Redacted> {
    let at = survey.checkpoint().filter(|at| gone.contains(at))?;
    let UnitKind::Checkpoint(block) = &survey.transcript.units[at].kind else { return None };
    let text = block.text();
    let inside = match past {
        Past::Paged => Checkpoint::parse(&text)?.standing().page(),
        Past::Carried => {
            let inside = text.find("\n## ").map_or(0, |at| at + 1)..text.rfind("\n[").unwrap_or(text.len());
            text.get(inside)?.to_owned()
        }
    };
    let inside = inside.trim();
    Some(harmless(&redactor.redact(inside, Content::Text).text)).filter(|text| !text.as_str().is_empty())
}
