//! What is said around a name, as it is looked up.

/// The words around a name that say more about it.
pub(super) struct Names {
    pub(super) tails: Vec<String>,
    pub(super) strengthens: Vec<String>,
    pub(super) harmless: Vec<String>,
    pub(super) filling: Vec<String>,
    pub(super) headers: Vec<String>,
    pub(super) schemes: Vec<String>,
}
