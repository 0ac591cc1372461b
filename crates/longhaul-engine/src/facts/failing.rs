//! The names of failing tests, as the common runners print them.

/// The name of the test that this line says has failed.
///
/// Marks and colours before it do not matter. The name is a piece of the line.
pub(super) fn failing(line: &str) -> Option<&str> {
    let line = undecorated(line);
    let name = after_mark(line).or_else(|| before_mark(line))?;
    let name = name.split('\u{1b}').next().unwrap_or(name).trim();
    (name.chars().nth(2).is_some()).then_some(name)
}

/// Runners that put the verdict first.
fn after_mark(line: &str) -> Option<&str> {
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

/// Runners that put the verdict last.
fn before_mark(line: &str) -> Option<&str> {
    let line = without_progress(line.trim_end());
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

/// The line without the `[ 12%]` behind it.
fn without_progress(line: &str) -> &str {
    match line.strip_suffix("%]").and_then(|line| line.rsplit_once(" [")) {
        Some((line, percent)) if percent.trim().bytes().all(|byte| byte.is_ascii_digit()) => line.trim_end(),
        _ => line,
    }
}

/// The line without the white space and the terminal's colours in front of it.
fn undecorated(mut line: &str) -> &str {
    loop {
        line = line.trim_start();
        let Some(rest) = line.strip_prefix("\u{1b}[") else { return line };
        let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else { return line };
        line = &rest[end + 1..];
    }
}
