//! A property over many generated bodies; where it does not hold, on which small body it still does not.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use super::{Generated, Part, write};

impl Generated {
    /// The same body without the parts that it fails without as well: at first half of them at once, at last one by one.
    pub fn smallest(&self, fails: impl Fn(&Self) -> bool) -> Self {
        let write = |without: &BTreeSet<Part>| write(self.dialect, self.seed, self.length, without);
        let mut without = BTreeSet::new();
        let mut size = self.parts.len();
        while size > 0 {
            for some in self.parts.chunks(size) {
                let more = without.iter().chain(some).copied().collect();
                if fails(&write(&more)) {
                    without = more;
                }
            }
            size /= 2;
        }
        write(&without)
    }
}

/// What a property gives for each body. Where it panics, how often it does, and on which small body it still does.
pub fn hold<T>(bodies: impl Iterator<Item = Generated>, property: impl Fn(&Generated) -> T) -> Vec<T> {
    let run = |body: &Generated| {
        catch_unwind(AssertUnwindSafe(|| property(body))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panics").to_owned()
        })
    };
    let (mut held, mut broken) = (Vec::new(), Vec::new());
    for body in bodies {
        match run(&body) {
            Ok(result) => held.push(result),
            Err(why) => {
                // The first one has been shown with its place; the others would say the same.
                set_hook(Box::new(|_| {}));
                broken.push((body, why));
            }
        }
    }
    let Some((first, _)) = broken.first() else { return held };
    let small = first.smallest(|body| run(body).is_err());
    let why = run(&small).err().unwrap_or_default();
    drop(take_hook());
    let all = broken
        .iter()
        .map(|(body, why)| format!("{} {}: {}", body.dialect, body.seed, why.chars().take(500).collect::<String>()));
    let all = all.collect::<Vec<_>>().join("\n");
    panic!("{} do not hold\n{all}\n\nthe first, made small:\n{}\n{why}", broken.len(), small.body);
}
