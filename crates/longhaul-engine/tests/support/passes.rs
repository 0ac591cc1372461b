//! The passes on a transcript.

use longhaul_engine::action::Actions;
use longhaul_engine::models;
use longhaul_engine::passes::{Change, Scope};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::Transcript;

pub fn policy(prune_characters: usize) -> Policy {
    let (mut policy, _) = Policy::new(&Config::default(), &models::find("gpt-5")).unwrap();
    policy.prune_characters = prune_characters;
    policy
}

/// The changes of `run`, with all but the newest `keep` units allowed.
pub fn changes(
    policy: &Policy,
    transcript: &Transcript<'_>,
    keep: usize,
    run: impl Fn(&Scope<'_, '_>) -> Vec<Change>,
) -> Vec<Change> {
    let actions = Actions::of(transcript);
    let allowed = transcript.units.len().saturating_sub(keep);
    let scope = Scope {
        policy,
        transcript,
        actions: &actions,
        may_change: &|unit| unit < allowed,
        handle: &|_| None,
    };
    run(&scope)
}
