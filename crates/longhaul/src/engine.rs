//! Which engine compacts, by the name in the configuration.

use longhaul_engine::known::Known;
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
        name => {
            note = Some(if name == "compressor" {
                "the compressor is not in this version; the sacred-zone engine was used".to_owned()
            } else {
                format!("no engine is called {name}; the sacred-zone engine was used")
            });
            plan::sacred_zone(policy, wish, known, transcript)
        }
    }?;
    plan.report_mut().notes.extend(note);
    Ok(plan)
}
