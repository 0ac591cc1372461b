//! The ask at the end of the session's own request: the same bytes as before, so that a provider reads them from its cache, and
//! one message more.

use std::collections::BTreeSet;

use super::Ask;
use crate::rewrite::{Refused, Rewrite};
use crate::seat::{self, Takes};
use crate::transcript::Transcript;

impl Ask {
    /// The request that asks for it behind a session as it was sent.
    ///
    /// # Errors
    /// Edits that cannot be made, which would be a mistake of ours.
    pub fn extend(&self, sent: &Transcript<'_>, takes: Takes) -> Result<String, Refused> {
        let at_the_end = seat::find(sent, sent.units.len(), &BTreeSet::new(), takes);
        let rewrite = Rewrite::new(sent, at_the_end.put(sent, self.appended().as_str()))?;
        Ok(rewrite.apply(sent.body))
    }
}
