//! The recorded cost of an agent's session: the usage that was recorded while it ran, at the prices of its
//! models.

use longhaul_agents::AgentSession;
use longhaul_engine::config::Config;
use longhaul_engine::prices::{self, Dollars, Usage};
use serde::Serialize;

/// The recorded cost of all requests of a session, including those whose replies were discarded.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RecordedCost {
    /// The number of requests with recorded usage.
    pub(crate) requests: usize,
    /// The number of those requests whose model has no known price. They are not in `usd`.
    pub(crate) unpriced: usize,
    pub(crate) usage: Usage,
    pub(crate) usd: Dollars,
    /// Who calculated `usd`.
    pub(crate) by: CostSource,
    /// The models that answered, the one with most requests first.
    pub(crate) models: Vec<ModelRequests>,
}

/// The number of requests that one model answered.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ModelRequests {
    pub(crate) model: String,
    pub(crate) requests: usize,
}

/// Who calculated the cost of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CostSource {
    /// The agent recorded the cost.
    Agent,
    /// Longhaul calculated it from the usage and its own prices.
    Prices,
    /// The agent for some requests, Longhaul for others.
    Both,
}

/// Adds up the cost of a session's requests. Returns `None` if no request has a recorded cost or a known
/// price.
pub(crate) fn sum_recorded_cost(session: &AgentSession, config: &Config) -> Option<RecordedCost> {
    let (mut usd, mut usage) = (Dollars::ZERO, Usage::default());
    let (mut by_agent, mut by_prices) = (0, 0);
    for request in &session.requests {
        usage = usage + request.usage;
        // An agent that does not know the price records a zero.
        if let Some(recorded) = request.dollars.filter(|recorded| *recorded > 0.0) {
            usd += Dollars(recorded);
            by_agent += 1;
            continue;
        }
        let model = request.model.as_deref().or(session.model.as_deref());
        if let Some(entry) = model.and_then(|model| prices::find_with_config(config, model)) {
            usd += request.usage.bill(&entry.price).total();
            by_prices += 1;
        }
    }
    let by = match (by_agent, by_prices) {
        (0, 0) => return None,
        (_, 0) => CostSource::Agent,
        (0, _) => CostSource::Prices,
        _ => CostSource::Both,
    };
    let requests = session.requests.len();
    Some(RecordedCost {
        requests,
        unpriced: requests - by_agent - by_prices,
        usage,
        usd,
        by,
        models: requests_by_model(session),
    })
}

/// Counts the requests of a session by the model that answered, the one with most requests first.
pub(crate) fn requests_by_model(session: &AgentSession) -> Vec<ModelRequests> {
    let mut models: Vec<ModelRequests> = Vec::new();
    for model in session.requests.iter().filter_map(|request| request.model.as_deref()) {
        match models.iter_mut().find(|entry| entry.model == model) {
            Some(entry) => entry.requests += 1,
            None => models.push(ModelRequests { model: model.to_owned(), requests: 1 }),
        }
    }
    models.sort_by_key(|answered| std::cmp::Reverse(answered.requests));
    models
}
