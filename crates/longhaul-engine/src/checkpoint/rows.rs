//! Of a long list that a call gave back, first the rows that other calls are about.

use std::collections::HashMap;

use crate::evidence::Read;

/// A list of no more rows is told whole.
const FEW: usize = 3;
/// A name of fewer bytes is no name.
const SHORT: usize = 4;

/// Names with a number in them (ids, flights, orders), each with the first call that has it, and whether others have it too.
pub(super) struct Named<'d>(HashMap<&'d str, (usize, bool)>);

impl<'d> Named<'d> {
    /// Those of all calls; none where no call gave back data.
    pub(super) fn in_all(deeds: &'d [Read]) -> Self {
        let mut named = HashMap::new();
        let calls = || deeds.iter().enumerate().filter_map(|(deed, read)| Some((deed, read.did()?)));
        if calls().any(|(_, did)| did.verdict.is_data) {
            for (deed, did) in calls() {
                let texts = did.verdict.lines.iter().chain([&did.asked]);
                for name in texts.flat_map(|text| names(text)) {
                    let (first, in_others) = named.entry(name).or_insert((deed, false));
                    *in_others |= *first != deed;
                }
            }
        }
        Self(named)
    }

    /// A field whose list has many rows, some of which are named elsewhere: those first.
    pub(super) fn rows(&self, field: &str) -> Option<String> {
        let (name, list) = field.split_once('[')?;
        let rows: Vec<&str> = list.strip_suffix(']').unwrap_or(list).split("; ").collect();
        if rows.len() <= FEW {
            return None;
        }
        // What most rows have tells none of them.
        let mut count: HashMap<&str, usize> = HashMap::new();
        rows.iter().flat_map(|row| names(row)).for_each(|name| *count.entry(name).or_default() += 1);
        let tells = |name: &str| {
            count.get(name).is_some_and(|count| count * 2 <= rows.len())
                && self.0.get(name).is_some_and(|(_, in_others)| *in_others)
        };
        let (mut first, others): (Vec<&str>, Vec<&str>) = rows.iter().partition(|row| names(row).any(tells));
        first.extend(others);
        Some(format!("{name}[{}]", first.join("; ")))
    }
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '#')))
        .filter(|word| word.len() >= SHORT && word.bytes().any(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_those_come_first_that_other_calls_name() {
        let named =
            Named(HashMap::from([("HAT157", (0, true)), ("HAT900", (1, false)), ("2024-05-24", (0, true))]));
        let field = "flights [HAT015 2024-05-24; HAT157 2024-05-24; HAT900 2024-05-24; HAT201 2024-05-24]";
        assert_eq!(
            named.rows(field).as_deref(),
            Some("flights [HAT157 2024-05-24; HAT015 2024-05-24; HAT900 2024-05-24; HAT201 2024-05-24]")
        );
        assert_eq!(named.rows("flights [HAT015; HAT157]"), None);
        assert_eq!(named.rows("status open"), None);
    }
}
