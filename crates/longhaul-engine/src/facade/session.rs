//! One conversation with a model, and what was compacted of it.

use std::fmt;
use std::sync::Arc;

use super::proposals::ProposalEngine;
use super::{Error, Options, SummaryRequest, cache_breakpoints};
use crate::block_cache::BlockCache;
use crate::check::{self, Violation};
use crate::config::{Config, RedactionRule};
use crate::ledger::Ledger;
use crate::meter::Meter;
use crate::models::{self, Model};
use crate::plan::{
    CompactOptions, CompactedRequest, CompactionReport, Compressor, Engine, Original, Originals, Plan, PlanInput,
    Proposal, ProposalInput, RecallIds,
};
use crate::policy::Policy;
use crate::redact::{RedactionMode, Redactor, Rules, SessionKey};
use crate::transcript::Transcript;
use crate::{ApiFormat, Tokens, wire};

/// The length in characters of the fence around the material of a summary prompt. 64 bits cannot be guessed.
const FENCE_CHARS: usize = 16;

/// One conversation with a model. Pass every request body to [`compact`](Self::compact) before you send it.
///
/// A client sends its whole history with each request. So the session remembers its decisions about that
/// history (the *ledger*), and repeats them byte for byte on the next, longer request: the provider's prompt
/// cache stays valid. Only if the result is too large again, it compacts further.
///
/// ```
/// use longhaul_engine::Session;
///
/// # fn send(_: &str) {}
/// # let body = include_str!("../../../../examples/session.json");
/// let mut session = Session::new("gpt-5");
/// match session.compact(body)? {
///     Some(smaller) => send(&smaller.body),
///     None => send(body),
/// }
/// # Ok::<(), longhaul_engine::Error>(())
/// ```
///
/// A session reads no file, clock or environment variable and calls no model. Equal calls have equal
/// results.
pub struct Session {
    model: Model,
    config: Config,
    engine: Arc<dyn Engine>,
    api_format: Option<ApiFormat>,
    key: Option<SessionKey>,
    block_cache: BlockCache,
    ledger: Ledger,
    /// The ledgers before each compaction, for [`Session::undo`].
    earlier_ledgers: Vec<Ledger>,
    last_report: Option<CompactionReport>,
}

/// A request that became smaller.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Compacted {
    /// The request body to send in place of the original.
    pub body: String,
    /// The sizes, the changed blocks with their recall IDs, the tokens that stay cached
    /// ([`warm`](crate::report::TokensReport::warm)) and those that have to be written to the cache again
    /// ([`cold_tokens`](crate::report::CostReport::cold_tokens)).
    pub report: CompactionReport,
    /// The blocks that this compaction removed or shortened, with their recall IDs. Empty unless the session
    /// was made [with originals](Session::with_originals).
    pub originals: Vec<Original>,
    /// Whether the session only repeated earlier decisions, so that nothing else changed.
    pub is_replay: bool,
}

impl Session {
    /// Starts a session for the model with this name, as the provider writes it. The name decides the
    /// context window, the tokenizer, the prices and the rules of the provider. An unknown model gets careful
    /// assumptions.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self {
            model: models::find(model),
            config: Config::default(),
            engine: Arc::new(Compressor),
            api_format: None,
            key: None,
            block_cache: BlockCache::default(),
            ledger: Ledger::default(),
            earlier_ledgers: Vec::new(),
            last_report: None,
        }
    }

    /// Sets the context window, in place of the known or assumed one of the model. With less than 4,000
    /// tokens, the next call returns an error.
    #[must_use]
    pub fn with_context_length(mut self, tokens: Tokens) -> Self {
        self.config.models.entry(self.model.name.clone()).or_default().context_length = Some(tokens);
        self
    }

    /// Sets the share of the context window at which [`compact`](Self::compact) starts to act. The default
    /// is 0.5.
    #[must_use]
    pub fn with_threshold(mut self, share: f64) -> Self {
        self.config.compression.threshold = share;
        self
    }

    /// Sets the number of messages that are kept at the start, after the system prompt. The default is 3.
    #[must_use]
    pub fn with_protected_first(mut self, messages: usize) -> Self {
        self.config.compression.protect_first_n = messages;
        self
    }

    /// Sets the number of newest messages that are kept if they fit into the budget for them. The default is
    /// 20. The newest turn is always kept.
    #[must_use]
    pub fn with_protected_last(mut self, messages: usize) -> Self {
        self.config.compression.protect_last_n = messages;
        self
    }

    /// Sets the API format of the requests. Without it, each request shows its format itself.
    #[must_use]
    pub fn with_api_format(mut self, api_format: ApiFormat) -> Self {
        self.api_format = Some(api_format);
        self
    }

    /// Makes [`compact`](Self::compact) return the originals of everything that it removes or shortens, in
    /// [`Compacted::originals`]. Each has a recall ID, and the request mentions that ID, so that the model can
    /// ask for the text: offer it a tool that takes a recall ID, and answer with the text that you stored.
    ///
    /// The key makes the recall IDs and signs the checkpoints. Take 32 random bytes, and use the same for the
    /// whole conversation.
    #[must_use]
    pub fn with_originals(mut self, key: [u8; 32]) -> Self {
        self.key = Some(SessionKey::new(key));
        self
    }

    /// Adds a rule that describes a secret. `name` has lower case letters, digits and dashes; `pattern` is a
    /// regular expression. Longhaul redacts secrets in checkpoints and in prompts for a summary, and if the
    /// session stores originals, in short forms too.
    #[must_use]
    pub fn with_redaction_rule(mut self, name: impl Into<String>, pattern: impl Into<String>) -> Self {
        let rule = RedactionRule { name: name.into(), pattern: pattern.into() };
        self.config.redaction.rules.push(rule);
        self
    }

    /// Lets a function of yours decide which messages to remove and which texts to shorten. It receives the
    /// request without secrets. Its proposal is applied if the result is valid and smaller; otherwise the
    /// built-in engine compacts, and a note in the report says why. The example `custom_engine` shows one.
    #[must_use]
    pub fn with_engine(
        mut self,
        name: impl Into<String>,
        propose: impl Fn(&ProposalInput) -> Result<Proposal, String> + Send + Sync + 'static,
    ) -> Self {
        self.engine = Arc::new(ProposalEngine { name: name.into(), propose: Box::new(propose) });
        self
    }

    /// Compacts a request if it has reached the threshold, or if the session has already compacted an earlier
    /// request of this conversation. Returns `None` if the request can be sent as it is.
    ///
    /// # Errors
    /// The body is not JSON, or an option of the session is invalid.
    pub fn compact(&mut self, body: &str) -> Result<Option<Compacted>, Error> {
        self.compact_with(body, &Options::new())
    }

    /// Compacts a request with options for this call only.
    ///
    /// # Errors
    /// The body is not JSON, or an option of the session is invalid.
    pub fn compact_with(&mut self, body: &str, options: &Options) -> Result<Option<Compacted>, Error> {
        let (policy, options) = (self.policy()?, self.engine_options(options)?);
        let transcript = self.parse(body)?;
        let input =
            PlanInput { policy: &policy, options: &options, cache: &mut self.block_cache, transcript: &transcript };
        match self.engine.plan(&self.ledger, input)? {
            Plan::Unchanged(report) => {
                self.last_report = Some(report);
                Ok(None)
            }
            Plan::Ready(CompactedRequest { body, ledger, report, originals, .. }) => {
                let is_replay = ledger == self.ledger;
                if !is_replay {
                    self.earlier_ledgers.push(std::mem::replace(&mut self.ledger, ledger));
                }
                self.last_report = Some(report.clone());
                Ok(Some(Compacted { body, report, originals, is_replay }))
            }
        }
    }

    /// Prepares a compaction whose summary a model writes. Returns the request for that summary, or `None` if
    /// [`compact_with`](Self::compact_with) would summarize nothing now. It changes nothing: without the
    /// summary, the checkpoint is written by code.
    ///
    /// # Errors
    /// The body is not JSON, or an option of the session is invalid.
    pub fn request_summary(&mut self, body: &str, options: &Options) -> Result<Option<SummaryRequest>, Error> {
        let (policy, options) = (self.policy()?, self.engine_options(options)?);
        let transcript = self.parse(body)?;
        let input =
            PlanInput { policy: &policy, options: &options, cache: &mut self.block_cache, transcript: &transcript };
        let plan = self.engine.plan(&self.ledger, input)?;
        let Plan::Ready(CompactedRequest { report, .. }) = plan else { return Ok(None) };
        if report.checkpoint.is_none() {
            return Ok(None);
        }
        let (ledger, cache) = (&self.ledger, &mut self.block_cache);
        let input = PlanInput { policy: &policy, options: &options, cache, transcript: &transcript };
        let Some(job) = self.engine.summary_job_after_compaction(ledger, input, &report)? else { return Ok(None) };
        // Nobody who wrote a part of the conversation knows all of it, so nobody can guess its hash.
        let fence = blake3::hash(body.as_bytes()).to_hex()[..FENCE_CHARS].to_owned();
        let author = self.model.name.clone();
        Ok(Some(SummaryRequest::new(job, policy.window, author, fence, options.redaction_rules)))
    }

    /// Forgets the newest compaction: the next request gets the decisions from before that compaction, or new
    /// ones if it is still over the threshold. Returns whether there was a compaction to forget. The client's own history was never
    /// changed, so nothing else has to be restored.
    pub fn undo(&mut self) -> bool {
        let earlier = self.earlier_ledgers.pop();
        earlier.map(|ledger| self.ledger = ledger).is_some()
    }

    /// Returns the report of the last compaction, or of the last request that stayed as it was: its `reason`
    /// says why.
    #[must_use]
    pub fn last_report(&self) -> Option<&CompactionReport> {
        self.last_report.as_ref()
    }

    /// Returns the decisions so far as JSON, so that you can store them and continue in another process.
    #[must_use]
    pub fn save_ledger(&self) -> String {
        serde_json::json!(self.ledger).to_string()
    }

    /// Restores the decisions of [`save_ledger`](Self::save_ledger). Make the session with the same options
    /// first.
    ///
    /// # Errors
    /// The text is not a ledger.
    pub fn load_ledger(&mut self, json: &str) -> Result<(), Error> {
        self.ledger = serde_json::from_str(json).map_err(|error| Error::InvalidLedger(error.to_string()))?;
        self.earlier_ledgers.clear();
        Ok(())
    }

    /// Counts the tokens of a request as the model's tokenizer counts them, or estimates them if that
    /// tokenizer is not public.
    ///
    /// # Errors
    /// The body is not JSON.
    pub fn count_tokens(&mut self, body: &str) -> Result<Tokens, Error> {
        let transcript = self.parse(body)?;
        Ok(Meter::for_model(&self.model).breakdown(&mut self.block_cache, &transcript).total())
    }

    /// Lists the rules of the provider that a request breaks, most serious first. A request without a
    /// violation of severity [`Error`](crate::Severity::Error) is accepted.
    ///
    /// ```
    /// use longhaul_engine::{Session, Severity};
    ///
    /// let body = include_str!("../../../../examples/refused.json");
    /// let violations = Session::new("gpt-5").check(body)?;
    /// assert_eq!(violations[0].severity, Severity::Error);
    /// # Ok::<(), longhaul_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// The body is not JSON.
    pub fn check(&self, body: &str) -> Result<Vec<Violation>, Error> {
        let api_format = self.parse(body)?.api_format;
        let mut violations = check::check(body, api_format, &self.model.target(api_format));
        violations.sort_by_key(|violation| violation.severity);
        Ok(violations)
    }

    /// Sets the cache breakpoints, or the cache key, with which the provider caches as much of the request as
    /// it can. Returns the request unchanged if the provider caches without them. Call it last, on the body
    /// that you send.
    ///
    /// # Errors
    /// The body is not JSON, or an option of the session is invalid.
    pub fn set_cache_breakpoints(&mut self, body: &str) -> Result<String, Error> {
        let (policy, transcript) = (self.policy()?, self.parse(body)?);
        Ok(cache_breakpoints::set(&policy, &mut self.block_cache, &transcript)?)
    }

    /// Replaces the secrets of a text by tags. Use it before you store an original: with the key of the
    /// session, the same secret gets the same tag everywhere.
    ///
    /// # Errors
    /// A rule of the session is not a regular expression.
    pub fn redact(&self, text: &str) -> Result<String, Error> {
        let rules = Rules::with_user_rules(&self.config.redaction)?;
        let mut redactor = match &self.key {
            Some(key) => Redactor::keyed(rules, key.clone()),
            None => Redactor::numbered(rules),
        };
        Ok(redactor.redact(text, RedactionMode::Text).text.into_string())
    }

    fn policy(&self) -> Result<Policy, Error> {
        Ok(Policy::new(&self.config, &self.model)?.0)
    }

    fn parse<'b>(&self, body: &'b str) -> Result<Transcript<'b>, Error> {
        Ok(wire::parse_for(self.api_format, Some(&self.model.name), body)?.0)
    }

    /// Returns the options of the engine for one call.
    fn engine_options(&self, options: &Options) -> Result<CompactOptions, Error> {
        let originals = self.key.clone().map_or(Originals::Discarded, |key| Originals::Stored(RecallIds::new(key)));
        Ok(CompactOptions {
            originals,
            session_key: self.key.clone(),
            redaction_rules: Rules::with_user_rules(&self.config.redaction)?,
            ..options.to_engine_options()
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("model", &self.model.name).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}
