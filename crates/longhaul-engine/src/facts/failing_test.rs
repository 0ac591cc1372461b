//! The names of failing tests, in the formats of the common test runners.

/// Returns the name of the test that this line reports as failed. The name is a part of the line, without
/// symbols and colours before it.
pub(super) fn failing_test_name(line: &str) -> Option<&str> {
    let line = strip_decoration(line);
    let name = name_after_verdict(line).or_else(|| name_before_verdict(line))?;
    let name = name.split('\u{1b}').next().unwrap_or(name).trim();
    (name.chars().nth(2).is_some()).then_some(name)
}

/// Returns the name from the line of a runner that prints the verdict first.
fn name_after_verdict(line: &str) -> Option<&str> {
    let first = line.chars().next()?;
    if let Some(name) = line.strip_prefix("● ") {
        return name.contains(" › ").then_some(name);
    }
    if matches!(first, '✗' | '×' | '✕' | '✘') {
        return line[first.len_utf8()..].strip_prefix([' ', '\t']).map(str::trim_start);
    }
    if let Some(rest) = line.strip_prefix("--- FAIL: ") {
        return rest.split_whitespace().next();
    }
    if let Some(rest) = line.strip_prefix("not ok ") {
        let (_, name) = rest.split_once("- ")?;
        return (!name.contains("# TODO") && !name.contains("# SKIP")).then_some(name);
    }
    if let Some(rest) = line.strip_prefix("rspec ./") {
        return rest.split_whitespace().next();
    }
    let (verdict, rest) = line.split_once([' ', '\t'])?;
    let rest = rest.trim_start();
    match verdict {
        "FAILED" | "ERROR" => rest.split_whitespace().next().filter(|name| name.contains("::")),
        // Go's line about a whole package, with the time it took.
        "FAIL" => (!rest.contains('\t')).then_some(rest),
        "FAIL:" | "ERROR:" => rest.contains(" (").then_some(rest),
        "Failed" => rest.ends_with(']').then(|| rest.split_whitespace().next()).flatten(),
        _ => None,
    }
}

/// Returns the name from the line of a runner that prints the verdict last.
fn name_before_verdict(line: &str) -> Option<&str> {
    let line = strip_progress(line.trim_end());
    if let Some(name) = line.strip_suffix(" FAILED") {
        if let Some(test) = name.strip_prefix("test ").and_then(|name| name.strip_suffix(" ...")) {
            return Some(test);
        }
        let one_word = !name.contains(' ') && name.contains("::");
        let gradle = name.contains(" > ") && !name.starts_with('>');
        return (one_word || gradle).then_some(name);
    }
    let name = line.strip_suffix(" ... ERROR").or_else(|| line.strip_suffix(" ... FAIL"))?;
    Some(name)
}

/// Returns the line without a percentage such as `[ 12%]` at its end.
fn strip_progress(line: &str) -> &str {
    match line.strip_suffix("%]").and_then(|line| line.rsplit_once(" [")) {
        Some((line, percent)) if percent.trim().bytes().all(|byte| byte.is_ascii_digit()) => line.trim_end(),
        _ => line,
    }
}

/// Returns the line without white space and terminal colours at its beginning.
fn strip_decoration(mut line: &str) -> &str {
    loop {
        line = line.trim_start();
        let Some(rest) = line.strip_prefix("\u{1b}[") else { return line };
        let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else { return line };
        line = &rest[end + 1..];
    }
}
