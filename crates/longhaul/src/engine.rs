//! Which engine compacts, by the name in the configuration.

use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{self, Plan, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::{Refused, Transcript};

/// Plans with the engine that the policy names. A name found nowhere means the compressor, and the report says so.
pub(crate) fn plan(
    policy: &Policy,
    wish: &Wish,
    known: &mut Known,
    transcript: &Transcript<'_>,
) -> Result<Plan, Refused> {
    let mut note = None;
    let mut plan = match policy.engine.as_str() {
        "sacred-zone" => plan::sacred_zone(policy, wish, known, transcript),
        "compressor" => plan::compressor(policy, wish, &Ledger::default(), known, transcript),
        name => {
            note = Some(format!("no engine is called {name}; the compressor was used"));
            plan::compressor(policy, wish, &Ledger::default(), known, transcript)
        }
    }?;
    plan.report_mut().notes.extend(note);
    Ok(plan)
}
