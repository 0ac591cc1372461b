//! The session that a body is the end of, request by request: with breakpoints alone, and with the engine that is in force.

use longhaul_engine::cache::{Ends, Route, Rules};
use longhaul_engine::cost::{self, Course, Marks, Replay, Session};
use longhaul_engine::known::Known;
use longhaul_server::pages::report::{Course as Drawn, Story};

use super::Asked;
use crate::route;

/// A session of more tokens than this is not replayed for a page: that would take longer than all the rest of it.
const LONGEST: u64 = 2_000_000;

/// The pauses are drawn by the same number as those of `longhaul cost`, so that both draw the same session.
const SEED: u64 = 1;

/// The course of the session, or why there is none.
pub(super) fn story(asked: &Asked<'_>, known: &mut Known) -> Result<Story, String> {
    let (policy, transcript) = (asked.policy, asked.transcript);
    let Some(prices) = &policy.prices else {
        let name = &policy.model.name;
        return Err(format!(
            "No prices are known for {name}, so no course is drawn; --model names one that has."
        ));
    };
    let session = Session::of(transcript, &policy.model, known);
    let requests = session.requests();
    let tokens = session.sizes.last().copied().unwrap_or_default();
    if tokens.number() > LONGEST {
        return Err(
            "The session is too long to be replayed for a page; longhaul cost -o cost.html replays it."
                .to_owned(),
        );
    }
    if requests.len() < 2 {
        return Err("The body is of a single request, so there is no course to draw.".to_owned());
    }
    let provider = route::provider(None, &asked.args.told, transcript);
    let route = Route::new(&policy.caching, &policy.model, provider, transcript.dialect);
    let (rules, marks) = match route {
        Route::Marks { carrier, strategy, ttl, .. } => {
            (Rules::of(&policy.model), Some(Marks { strategy, ttl, carrier }))
        }
        Route::Off(_) => (Rules { ends: Ends::Nowhere, ..Rules::of(&policy.model) }, None),
        Route::Key | Route::Automatic => (Rules::of(&policy.model), None),
    };
    let pauses = cost::pauses(&requests, SEED);
    let replay = Replay {
        session: &session,
        requests: &requests,
        pauses: &pauses,
        rules,
        price: &prices.price,
        marks,
    };
    let share = policy.threshold.number() as f64 / policy.window.number().max(1) as f64;
    let engine = Course::of(&policy.engine, share)
        .ok_or_else(|| format!("What {} would do is not replayed, so no course is drawn.", policy.engine))?;
    let mut courses = Vec::new();
    for (course, name) in
        [(Course::Marks, "without compaction".to_owned()), (engine, format!("with {engine}"))]
    {
        let on = course
            .policy(&asked.settings.engine, &policy.model)
            .map_err(|invalid| format!("No course is drawn: {invalid}."))?;
        let turns =
            replay.run(course, &on, known).map_err(|refused| format!("No course is drawn: {refused}."))?;
        courses.push(Drawn { name, turns });
    }
    let says = "The session replayed request by request through a model of the provider's cache; the pauses between requests are drawn. \
                longhaul cost compares more policies.";
    Ok(Story { courses, window: policy.window, threshold: policy.threshold, says: says.to_owned() })
}
