//! Comparing what a page shows with what was printed, without what differs from run to run.

use std::sync::LazyLock;

use regex::Regex;

/// What differs from run to run, and what stands for it in the comparison.
static VARIES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"[\d,]+ bytes", "N bytes"),
        (r"\d+(\.\d+)? ms\b", "N ms"),
        (r"\d+ (s|min|h|d) ago", "N ago"),
        (r"longhaul \d+\.\d+\.\d+", "longhaul VERSION"),
        // Session IDs and recall IDs: digits and letters without i, l, o and u.
        (r"\b[0-9a-hjkmnp-tv-z]{10}\b", "ID"),
        (r" +", " "),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
    .into()
});

static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d[\d,]*(\.\d+)?").unwrap());

/// How far two numbers may lie apart, as a share; the last decimal of a fraction may differ by one. Recall IDs of a store are random,
/// and are counted as a few tokens more or less.
const CLOSE: f64 = 0.02;

fn normal(line: &str) -> String {
    let line = line.trim_end().to_owned();
    VARIES.iter().fold(line, |line, (pattern, name)| pattern.replace_all(&line, *name).into_owned())
}

/// Whether the printed text is what the page shows.
pub(crate) fn same(shown: &[String], printed: &str) -> bool {
    let shown: Vec<String> = shown.iter().map(|line| normal(line)).collect();
    let printed: Vec<String> = printed.lines().map(normal).collect();
    matches(&shown, &printed)
}

fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [any, rest @ ..] if any == "…" => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        [line, rest @ ..] => {
            printed.first().is_some_and(|first| line_matches(line, first)) && matches(rest, &printed[1..])
        }
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    if !shown.contains('…') {
        let mut pairs = NUMBER.find_iter(shown).zip(NUMBER.find_iter(printed));
        let close = pairs.all(|(shown, printed)| are_close(shown.as_str(), printed.as_str()));
        return close && NUMBER.replace_all(shown, "N") == NUMBER.replace_all(printed, "N");
    }
    let pattern =
        shown.split('…').map(|part| regex::escape(&NUMBER.replace_all(part, "N"))).collect::<Vec<_>>().join(".*");
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(&NUMBER.replace_all(printed, "N"))
}

fn are_close(shown: &str, printed: &str) -> bool {
    let value = |number: &str| number.replace(',', "").parse::<f64>().unwrap();
    let last_digit =
        shown.split_once('.').map_or(0.0, |(_, decimals)| decimals.chars().fold(1.0, |digit, _| digit / 10.0));
    let (shown, printed) = (value(shown), value(printed));
    (shown - printed).abs() <= f64::max(CLOSE * shown.max(printed), 1.01 * last_digit)
}

/// What the page should show: the printed text; if the page skips lines in one place, as many lines before and behind that place as it
/// has now. `None` if the page skips lines in several places, where only a person can choose.
pub(crate) fn bless(shown: &[String], printed: &str) -> Option<Vec<String>> {
    let printed: Vec<String> = printed.lines().map(|line| line.trim_end().to_owned()).collect();
    let skips: Vec<usize> = (0..shown.len()).filter(|&i| shown[i] == "…").collect();
    match skips[..] {
        [] => Some(printed),
        [skip] => {
            let behind = shown.len() - skip - 1;
            let last = printed.len().checked_sub(behind).filter(|&last| last >= skip)?;
            Some([&printed[..skip], &["…".to_owned()], &printed[last..]].concat())
        }
        _ => None,
    }
}
