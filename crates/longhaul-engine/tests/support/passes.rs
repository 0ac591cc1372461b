//! The passes on a transcript.

use longhaul_engine::action::Actions;
use longhaul_engine::models;
use longhaul_engine::passes::{PassScope, ProposedChange};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::Transcript;

pub fn policy(prune_characters: usize) -> Policy {
    let (mut policy, _) = Policy::new(&Config::default(), &models::find("gpt-5")).unwrap();
    policy.prune_above_chars = prune_characters;
    policy
}

/// The changes of `run`, with all but the newest `keep` units allowed.
pub fn changes(
    policy: &Policy,
    transcript: &Transcript<'_>,
    originals: usize,
    run: impl Fn(&PassScope<'_, '_>) -> Vec<ProposedChange>,
) -> Vec<ProposedChange> {
    let actions = Actions::from_transcript(transcript);
    let allowed = transcript.turns.len().saturating_sub(originals);
    let scope =
        PassScope { policy, transcript, actions: &actions, may_change: &|turn| turn < allowed, recall_id: &|_| None };
    run(&scope)
}
