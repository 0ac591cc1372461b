//! Finds the JSON pointer of a value, for reports to people and programs.

use super::{JsonError, Scanner, Span, unescape};

/// Returns the JSON pointer of the value that has exactly this span, or `None` if no value has it.
#[must_use]
pub fn find_pointer(text: &str, target: Span) -> Option<String> {
    let mut scanner = Scanner::new(text);
    scanner.skip_byte_order_mark();
    let (mut here, _) = scanner.skip_value().ok()?;
    let mut path = String::new();
    while here != target {
        let (step, inside) = find_child(text, here, target).ok()??;
        path.push('/');
        path.push_str(&step);
        here = inside;
    }
    Some(path)
}

/// Returns the member or element of the value at `here` that contains the target: its pointer segment and its
/// span.
fn find_child(text: &str, here: Span, target: Span) -> Result<Option<(String, Span)>, JsonError> {
    let (mut found, mut index) = (None, 0);
    let mut scanner = Scanner::within(text, here);
    match scanner.peek() {
        b'{' => drop(scanner.for_each_member(|scanner, key, _| {
            let (value, _) = scanner.skip_value()?;
            if value.contains(target) {
                let key = unescape(&text[key.range()]).replace('~', "~0").replace('/', "~1");
                found = Some((key, value));
            }
            Ok(())
        })?),
        b'[' => drop(scanner.for_each_element(|scanner| {
            let (value, _) = scanner.skip_value()?;
            if value.contains(target) {
                found = Some((index.to_string(), value));
            }
            index += 1;
            Ok(())
        })?),
        _ => {}
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_pointer() {
        let text = "\u{feff}{\"a\": [1, {\"b/c\": \"x\"}], \"d~\": {}}";
        let find = |part: &str| {
            let start = text.find(part).unwrap();
            find_pointer(text, Span::new(start, start + part.len()))
        };
        for (part, wanted) in [("1", "/a/0"), ("\"x\"", "/a/1/b~1c"), ("{}", "/d~0"), ("[1, {\"b/c\": \"x\"}]", "/a")] {
            assert_eq!(find(part).as_deref(), Some(wanted), "{part}");
        }
        assert_eq!(find("b/c"), None);
        assert_eq!(find_pointer(text, Span::new(3, text.len())), Some(String::new()));
    }
}
