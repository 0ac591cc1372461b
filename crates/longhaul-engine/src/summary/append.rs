//! The request for a summary at the end of the session's own request: the same bytes as before, so that the
//! provider reads them from its cache, and one message more.

use std::collections::BTreeSet;

use super::SummaryJob;
use crate::insertion_point::{self, RoleOrder};
use crate::rewrite::{Rewrite, RewriteError};
use crate::transcript::Transcript;

impl SummaryJob {
    /// Returns the session's request as it was sent, with the instructions for the summary appended.
    ///
    /// # Errors
    /// Returns the refused edit if the message cannot be inserted, which is an internal error.
    pub fn append_to(&self, sent: &Transcript<'_>, takes: RoleOrder) -> Result<String, RewriteError> {
        let at_the_end = insertion_point::find(sent, sent.turns.len(), &BTreeSet::new(), takes);
        let rewrite = Rewrite::new(sent, at_the_end.insertion_edits(sent, self.appended_prompt().as_str()))?;
        Ok(rewrite.apply(sent.body))
    }
}
