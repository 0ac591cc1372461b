//! The files that a patch names, in the two notations that agents write.

use super::{Touch, Touched};

/// Every file that a patch changes, in its order.
pub(super) fn touches(text: &str) -> Vec<Touch> {
    let mut touches: Vec<Touch> = Vec::new();
    let mut add = |path: &str, how| {
        let path = path.trim();
        if !path.is_empty() && path != "/dev/null" {
            touches.push(Touch { path: path.to_owned(), how });
        }
    };
    let mut before = None;
    for line in text.lines() {
        let named = [
            ("*** Update File: ", Touched::Edited),
            ("*** Add File: ", Touched::Created),
            ("*** Delete File: ", Touched::Deleted),
            ("*** Move to: ", Touched::Created),
        ];
        if let Some((path, how)) =
            named.iter().find_map(|(start, how)| Some((line.strip_prefix(start)?, *how)))
        {
            add(path, how);
        } else if let Some(path) = line.strip_prefix("--- ") {
            before = Some(plain(path));
        } else if let (Some(path), Some(old)) = (line.strip_prefix("+++ "), before.take()) {
            match (old, plain(path)) {
                ("/dev/null", new) => add(new, Touched::Created),
                (old, "/dev/null") => add(old, Touched::Deleted),
                (_, new) => add(new, Touched::Edited),
            }
        }
    }
    touches
}

/// A path without the letter that diffs put before it and the time behind it.
fn plain(path: &str) -> &str {
    let path = path.split('\t').next().unwrap_or(path).trim();
    path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
}
