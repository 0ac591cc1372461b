//! `report`: one compaction as a page that stands alone.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Folder, Run, longhaul, longhaul_reading};

/// A session whose every step reads a file; from the third on it edits one, too.
fn session(steps: usize, name: &str) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "find out why the import is slow, and mend it"})];
    for step in 0..steps {
        let (read, edit) = (format!("r{step}"), format!("e{step}"));
        let lines: Vec<String> =
            (0..40).map(|line| format!("def step_{step}_{line}(rows): return rows[{line}:]")).collect();
        let call = json!({"type": "tool_use", "id": read, "name": name, "input": {"file_path": format!("src/part_{step}.py")}});
        messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": format!("Looking at part {step}.")}, call]}));
        let result = json!({"type": "tool_result", "tool_use_id": read, "content": lines.join("\n")});
        messages.push(json!({"role": "user", "content": [result]}));
        if step > 2 {
            let change = json!({"file_path": format!("src/part_{step}.py"), "old_string": format!("rows[{step}:]"), "new_string": "rows"});
            messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": edit, "name": "Edit", "input": change}]}));
            messages.push(
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": edit, "content": "ok"}]}),
            );
        }
    }
    json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "system": "Read before you judge.", "messages": messages})
}

fn report(folder: &Folder, body: &Value, more: &[&str]) -> Run {
    folder.file("session.json", body.to_string());
    longhaul(folder, &[&["report", "session.json", "-o", "page.html"][..], more].concat(), &[])
}

fn page(folder: &Folder) -> String {
    std::fs::read_to_string(folder.0.join("page.html")).unwrap()
}

fn compressed(folder: &Folder, body: &str, more: &[&str]) -> Value {
    let run = longhaul(folder, &[&["compress", body, "--preview", "--json", "--quiet"][..], more].concat(), &[]);
    serde_json::from_str(&run.out).unwrap()
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| std::str::from_utf8(group).unwrap()).collect::<Vec<_>>().join(",")
}

/// Elements that have no end.
const VOID: [&str; 2] = ["meta", "input"];

/// Reads a page as a browser would and gives its ids; every element ends where it should, and every link leads to an id.
fn ids(page: &str) -> BTreeSet<String> {
    let (mut open, mut ids, mut links): (Vec<&str>, BTreeSet<String>, Vec<&str>) = (vec![], BTreeSet::new(), vec![]);
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(start) = rest.find('<') {
        let tag = &rest[start + 1..];
        let end = tag.find('>').expect("a tag that ends");
        let (inside, behind) = (&tag[..end], &tag[end + 1..]);
        rest = behind;
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "…{}", &rest[..rest.len().min(200)]);
            continue;
        }
        let name = inside.split(' ').next().unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "{inside}");
        for word in inside.split(' ') {
            if let Some(id) = word.strip_prefix("id=\"") {
                assert!(ids.insert(id.trim_end_matches('"').to_owned()), "{id} stands twice");
            }
            links.extend(word.strip_prefix("href=\"").map(|link| link.trim_end_matches('"')));
        }
        if name == "style" {
            rest = &rest[rest.find("</style").unwrap()..];
        }
        if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    for link in links {
        assert!(link.strip_prefix('#').is_some_and(|id| ids.contains(id)), "{link} leads nowhere");
    }
    ids
}

/// Holds the numbers of a page against what `compress --json` says.
#[track_caller]
fn says(page: &str, told: &Value) {
    let number = |path: &str| told.pointer(path).and_then(Value::as_u64).unwrap();
    let both = |what: &str| ["before", "after"].map(|side| number(&format!("/{what}/{side}")));
    let (tokens, messages) = (both("tokens"), both("messages"));
    if told["changed"] == json!(true) {
        for lead in [
            format!("{} → {} tokens (", grouped(tokens[0]), grouped(tokens[1])),
            format!(" % smaller), {} → {} messages.", grouped(messages[0]), grouped(messages[1])),
        ] {
            assert!(page.contains(&lead), "{lead}");
        }
    }
    let fates = told["blocks"].as_array().unwrap().iter().map(|block| block["fate"].as_str().unwrap());
    let (shortened, gone): (Vec<&str>, Vec<&str>) = fates.partition(|fate| *fate == "digested");
    let shown = |fate: &str| -> u64 {
        let behind = page.split(&format!("<li><span class=\"badge {fate}\">")).nth(1).unwrap();
        let count = behind.split("</span>").nth(1).and_then(|rest| rest.rsplit('(').next()).unwrap();
        count.split(' ').next().unwrap().replace(',', "").parse().unwrap()
    };
    assert_eq!(
        (shown("shortened"), shown("summarized") + shown("removed")),
        (shortened.len() as u64, gone.len() as u64)
    );
    for all in tokens {
        assert!(page.contains(&format!("<td>{}</td>", grouped(all))), "the sum of all parts is {all}");
    }
}

#[test]
fn the_page_is_one_file_and_says_what_compress_says() {
    let folder = Folder::new("report-page");
    let body = session(40, "Read");
    for engine in ["compressor", "sacred-zone"] {
        let more = ["--context-length", "30k", "--engine", engine];
        let run = report(&folder, &body, &more);
        assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
        assert!(run.err.contains("% smaller); the page is in page.html"), "{}", run.err);
        let page = page(&folder);
        let ids = ids(&page);
        for outside in ["<script", "<link", "src=", "url(", "http:", "https:", " style=", "javascript"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'"));
        let told = compressed(&folder, "session.json", &more);
        says(&page, &told);
        assert!(ids.contains("course") && ids.contains("messages"), "{ids:?}");
        assert_eq!(page.matches("<svg class=\"wide\"").count(), 2, "tokens and dollars, drawn");
        assert_eq!(ids.contains("checkpoint"), !told["checkpoint"].is_null());
    }
}

/// The heads of the rows, as somebody reads them.
fn heads(page: &str) -> Vec<String> {
    let text = |html: &str| {
        let words: Vec<&str> = html
            .split('<')
            .filter_map(|part| part.split_once('>').map_or(Some(part), |(_, text)| Some(text)))
            .collect();
        words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    page.split("<header>").skip(1).map(|rest| text(rest.split("</header>").next().unwrap())).collect()
}

#[test]
fn a_reader_sees_message_by_message_what_became_of_it() {
    let folder = Folder::new("report-rows");
    let run = report(&folder, &session(5, "Read"), &["--keep-from", "11", "--context-length", "20k"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let wanted = "
system prompt kept 6 tokens
#0 user kept 14 tokens checkpoint next change ↓
#1 assistant summarized 22 → 0 tokens ↑ previous
#2 user summarized 624 → 0 tokens
#3 assistant summarized 22 → 0 tokens
#4 user summarized 624 → 0 tokens
#5 assistant summarized 22 → 0 tokens
#6 user summarized 624 → 0 tokens
#7 assistant summarized 22 → 0 tokens
#8 user summarized 624 → 0 tokens
#9 assistant summarized 29 → 0 tokens
#10 user summarized 2 → 0 tokens
#11 → #1 assistant kept 22 tokens
#12 → #2 user kept 624 tokens
#13 → #3 assistant kept 29 tokens
#14 → #4 user kept 2 tokens";
    assert_eq!(heads(&page(&folder)).join("\n"), wanted.trim());
}

#[test]
fn below_the_threshold_it_shows_what_force_would_do() {
    let folder = Folder::new("report-due");
    let run = report(&folder, &session(8, "Read"), &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let due = page(&folder);
    assert!(due.contains("No compaction is triggered: below the threshold"), "said on the page");
    assert!(run.err.starts_with("longhaul: No compaction is triggered: "), "{}", run.err);
    says(&due, &compressed(&folder, "session.json", &["--force"]));
    report(&folder, &session(8, "Read"), &["--force"]);
    assert!(!page(&folder).contains("Nothing is due"));

    let tiny = json!({"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]});
    let run = report(&folder, &tiny, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    ids(&page(&folder));
    assert!(page(&folder).contains("--force would change nothing either"));
}

#[test]
fn a_hostile_session_makes_a_page_like_any_other() {
    let folder = Folder::new("report-hostile");
    let payloads = [
        "</div></main><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "<style>*{display:none}</style><!--",
        "{{constructor.constructor('alert(1)')()}}${7*7}",
        "\u{202e}\u{2066}\u{7}\u{1b}[2J\u{0}\u{feff}",
        "javascript:alert(1)",
    ];
    let mut body = session(30, "Read").to_string();
    let hostile = serde_json::to_string(&payloads.concat()).unwrap();
    let hostile = hostile.trim_matches('"');
    for place in ["Looking at part", "def step_", "rows", "Read before", "find out why"] {
        body = body.replace(place, &format!("{hostile}{place}"));
    }
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["messages"][1]["content"][1]["name"] = json!("<b onclick=alert(1)>tool</b>");
    let name = "<img src=x onerror=alert(1)>.json";
    folder.file(name, body.to_string());
    let focus = "<script>focus</script>";
    let run = longhaul(&folder, &["report", name, "-o", "page.html", "--context-length", "30k", "--focus", focus], &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let page = page(&folder);
    ids(&page);
    for markup in ["<script", "<img", "<b onclick", "display:none}</style><!--", "\u{202e}", "\u{7}", "\u{1b}", "\u{0}"]
    {
        assert!(!page.contains(markup), "{markup:?}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("U+202E"), "shown, and not obeyed");
}

#[test]
fn secrets_stay_out_unless_they_are_wanted() {
    let folder = Folder::new("report-secrets");
    let secret = ["ghp", "_", &"aB3dE6gH9jK2".repeat(3)].concat();
    let mut body = session(20, "Read");
    body["messages"][0]["content"] = json!(format!("push with GITHUB_TOKEN={secret} please"));
    let run = report(&folder, &body, &["--force"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(!page(&folder).contains(&secret) && page(&folder).contains("[REDACTED:"));
    let run = report(&folder, &body, &["--force", "--no-redact"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(page(&folder).contains(&secret));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.0.join("page.html")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "for its owner alone, though the file was there before");
    }
}

#[test]
fn a_call_that_is_wrong_is_one_line_and_no_page() {
    let folder = Folder::new("report-wrong");
    let body = session(6, "Read").to_string();
    folder.file("session.json", &body);
    folder.file("empty.json", "");
    folder.file("other.json", r#"{"a":1}"#);
    let refused = |words: &[&str]| longhaul(&folder, &[&["report"][..], words].concat(), &[]).refused().to_owned();
    let line = refused(&["session.json", "-o", "./session.json"]);
    assert!(line.contains("-o would overwrite the input session.json"), "{line}");
    assert!(refused(&["empty.json", "-o", "p.html"]).contains("empty.json is empty"));
    assert!(refused(&["other.json", "-o", "p.html"]).contains("has no `messages` or `input`"));
    assert!(refused(&["no.json", "-o", "p.html"]).contains("no.json"));
    assert!(
        refused(&["session.json", "-o", "no/such/p.html"]).contains("the directory of no/such/p.html does not exist")
    );
    assert!(
        refused(&["session.json", "-o", "p.html", "--keep-from", "99"])
            .contains("--keep-from 99 is after the last message")
    );
    assert!(refused(&["session.json"]).contains("--output <FILE.html>"));
    assert!(!folder.0.join("p.html").exists());
    assert_eq!(std::fs::read_to_string(folder.0.join("session.json")).unwrap(), body);

    let run = longhaul(&folder, &["report", "session.json", "--to-tokens", "10", "-o", "p.html"], &[]);
    assert_eq!(run.code, 1, "a size that cannot be reached: {}", run.err);
    assert!(std::fs::read_to_string(folder.0.join("p.html")).unwrap().contains("larger than the context window"));

    let run = longhaul_reading(&folder, &["report", "-", "-o", "-", "--quiet"], &[], body.as_bytes());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    ids(&run.out);
}

#[test]
fn a_model_without_prices_has_no_course_and_says_why() {
    let folder = Folder::new("report-prices");
    let mut body = session(10, "Read");
    body["model"] = json!("somebody/unheard-of");
    let run = report(&folder, &body, &["--force"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let page = page(&folder);
    assert!(page.contains("No prices are known for somebody/unheard-of") && !page.contains("<svg class=\"wide\""));
}

/// Each engine has every other one of the bodies: both with all of them would take a minute.
#[test]
fn every_real_body_makes_a_page_whose_numbers_are_those_of_compress() {
    let Some(shared) = std::env::var_os("LONGHAUL_SHARED") else {
        println!("LONGHAUL_SHARED is not set, so no real body is looked at");
        return;
    };
    let folder = Folder::new("report-corpus");
    let there = std::fs::read_dir(PathBuf::from(shared).join("corpus")).unwrap();
    let mut bodies: Vec<PathBuf> = there.map(|entry| entry.unwrap().path()).collect();
    bodies.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    bodies.sort();
    assert!(!bodies.is_empty());
    for (body, engine) in bodies.iter().zip(["compressor", "sacred-zone"].into_iter().cycle()) {
        let name = body.to_str().unwrap();
        println!("{name} {engine}");
        let more = ["--force", "--context-length", "60k", "--engine", engine];
        let run = longhaul(&folder, &[&["report", name, "-o", "page.html", "--quiet"][..], &more].concat(), &[]);
        assert!(run.code <= 1, "{}", run.err);
        let page = page(&folder);
        ids(&page);
        says(&page, &compressed(&folder, name, &more));
    }
}
