//! What a session cost: what was recorded while it ran, at what the tokens cost.

use longhaul_engine::config::Config;
use longhaul_engine::prices::{self, Dollars, Usage};
use longhaul_server::agents::Session;
use serde::Serialize;

/// What was recorded of a session's requests, whatever became of their replies.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Paid {
    /// How many requests were reported about.
    pub(crate) requests: usize,
    /// How many of those are of models without a known price, and not in the sum.
    pub(crate) unpriced: usize,
    pub(crate) usage: Usage,
    pub(crate) usd: Dollars,
    /// Whose figure that is.
    pub(crate) by: By,
    /// Who answered, the busiest first.
    pub(crate) models: Vec<Answered>,
}

/// How many requests a model answered.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Answered {
    pub(crate) model: String,
    pub(crate) requests: usize,
}

/// Who says what a request cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// The agent wrote it down.
    Agent,
    /// Its usage at our prices.
    Prices,
    /// Some requests one way, some the other.
    Both,
}

/// What the requests of a session came to; nothing where none was reported about, or none has a price.
pub(crate) fn paid(session: &Session, config: &Config) -> Option<Paid> {
    let (mut usd, mut usage) = (Dollars::ZERO, Usage::default());
    let (mut by_agent, mut by_prices) = (0, 0);
    for request in &session.requests {
        usage = usage + request.usage;
        // An agent that knows no price writes down a zero.
        if let Some(own) = request.dollars.filter(|own| *own > 0.0) {
            usd += Dollars(own);
            by_agent += 1;
            continue;
        }
        let model = request.model.as_deref().or(session.model.as_deref());
        if let Some(known) = model.and_then(|model| prices::stated(config, model)) {
            usd += request.usage.bill(&known.price).total();
            by_prices += 1;
        }
    }
    let by = match (by_agent, by_prices) {
        (0, 0) => return None,
        (_, 0) => By::Agent,
        (0, _) => By::Prices,
        _ => By::Both,
    };
    let requests = session.requests.len();
    Some(Paid {
        requests,
        unpriced: requests - by_agent - by_prices,
        usage,
        usd,
        by,
        models: models(session),
    })
}

/// The models that answered a session's requests, the busiest first.
pub(crate) fn models(session: &Session) -> Vec<Answered> {
    let mut models: Vec<Answered> = Vec::new();
    for model in session.requests.iter().filter_map(|request| request.model.as_deref()) {
        match models.iter_mut().find(|known| known.model == model) {
            Some(known) => known.requests += 1,
            None => models.push(Answered { model: model.to_owned(), requests: 1 }),
        }
    }
    models.sort_by_key(|answered| std::cmp::Reverse(answered.requests));
    models
}
