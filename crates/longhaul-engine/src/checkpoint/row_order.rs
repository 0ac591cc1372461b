//! The order of rows in a long list that a tool returned: rows that other calls mention come first.

use std::collections::HashMap;

use super::weights::{MAX_UNSORTED_ROWS, MIN_NAME_BYTES};
use crate::evidence::EvidenceItem;

/// Names with a digit in them (IDs, flights, orders), each with the index of the first call that contains it,
/// and whether other calls contain it too.
pub(super) struct NameUses<'d>(HashMap<&'d str, (usize, bool)>);

impl<'d> NameUses<'d> {
    /// Collects the names of all calls. The result is empty if no call returned structured data.
    pub(super) fn scan(tool_uses: &'d [EvidenceItem]) -> Self {
        let mut named = HashMap::new();
        let calls = || tool_uses.iter().enumerate().filter_map(|(use_index, item)| Some((use_index, item.tool_use()?)));
        if calls().any(|(_, tool_use)| tool_use.key_lines.is_data) {
            for (use_index, tool_use) in calls() {
                let texts = tool_use.key_lines.lines.iter().chain([&tool_use.request]);
                for name in texts.flat_map(|text| find_names(text)) {
                    let (first, in_others) = named.entry(name).or_insert((use_index, false));
                    *in_others |= *first != use_index;
                }
            }
        }
        Self(named)
    }

    /// Moves the rows to the front that other calls mention; `None` if the field is no long list.
    pub(super) fn reorder_rows(&self, field: &str) -> Option<String> {
        let (name, list) = field.split_once('[')?;
        let rows: Vec<&str> = list.strip_suffix(']').unwrap_or(list).split("; ").collect();
        if rows.len() <= MAX_UNSORTED_ROWS {
            return None;
        }
        // A name in most rows does not distinguish any of them.
        let mut count: HashMap<&str, usize> = HashMap::new();
        rows.iter().flat_map(|row| find_names(row)).for_each(|name| *count.entry(name).or_default() += 1);
        let tells = |name: &str| {
            count.get(name).is_some_and(|count| count * 2 <= rows.len())
                && self.0.get(name).is_some_and(|(_, in_others)| *in_others)
        };
        let (mut first, others): (Vec<&str>, Vec<&str>) = rows.iter().partition(|row| find_names(row).any(tells));
        first.extend(others);
        Some(format!("{name}[{}]", first.join("; ")))
    }
}

fn find_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '#')))
        .filter(|word| word.len() >= MIN_NAME_BYTES && word.bytes().any(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_other_calls_name_come_first() {
        let named = NameUses(HashMap::from([("HAT157", (0, true)), ("HAT900", (1, false)), ("2024-05-24", (0, true))]));
        let field = "flights [HAT015 2024-05-24; HAT157 2024-05-24; HAT900 2024-05-24; HAT201 2024-05-24]";
        assert_eq!(
            named.reorder_rows(field).as_deref(),
            Some("flights [HAT157 2024-05-24; HAT015 2024-05-24; HAT900 2024-05-24; HAT201 2024-05-24]")
        );
        assert_eq!(named.reorder_rows("flights [HAT015; HAT157]"), None);
        assert_eq!(named.reorder_rows("status open"), None);
    }
}
