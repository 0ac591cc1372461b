//! Stub.
use super::{Target, Violation};
use crate::Dialect;
/// x
#[must_use]
pub fn compare(_b: &str, _a: &str, _d: Dialect, _t: &Target) -> Vec<Violation> {
    Vec::new()
}
/// x
#[must_use]
pub fn repeated(_b: &str, _a: &str) -> Vec<Violation> {
    Vec::new()
}
