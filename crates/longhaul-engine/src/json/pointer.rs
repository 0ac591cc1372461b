//! Where a value stands, as people and programs write it.

use super::{NotJson, Scanner, Span, unescape};

/// The JSON pointer of the value that is exactly this span; none where there is no such value.
#[must_use]
pub fn pointer(text: &str, target: Span) -> Option<String> {
    let mut scanner = Scanner::new(text);
    scanner.skip_byte_order_mark();
    let (mut here, _) = scanner.value().ok()?;
    let mut path = String::new();
    while here != target {
        let (step, inside) = step(text, here, target).ok()??;
        path.push('/');
        path.push_str(&step);
        here = inside;
    }
    Some(path)
}

/// The member or element of a value that holds the target.
fn step(text: &str, here: Span, target: Span) -> Result<Option<(String, Span)>, NotJson> {
    let (mut found, mut index) = (None, 0);
    let mut scanner = Scanner::within(text, here);
    match scanner.peek() {
        b'{' => drop(scanner.members(|scanner, key, _| {
            let (value, _) = scanner.value()?;
            if value.contains(target) {
                let key = unescape(&text[key.range()]).replace('~', "~0").replace('/', "~1");
                found = Some((key, value));
            }
            Ok(())
        })?),
        b'[' => drop(scanner.elements(|scanner| {
            let (value, _) = scanner.value()?;
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
            pointer(text, Span::new(start, start + part.len()))
        };
        for (part, wanted) in
            [("1", "/a/0"), ("\"x\"", "/a/1/b~1c"), ("{}", "/d~0"), ("[1, {\"b/c\": \"x\"}]", "/a")]
        {
            assert_eq!(find(part).as_deref(), Some(wanted), "{part}");
        }
        assert_eq!(find("b/c"), None);
        assert_eq!(pointer(text, Span::new(3, text.len())), Some(String::new()));
    }
}
