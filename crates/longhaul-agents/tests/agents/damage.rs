//! Files that are cut short, damaged, written to or very large: one clear line, or they just work.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use longhaul_agents::{Extent, ReadOptions, SessionReadError, request_body};
use longhaul_engine::wire;
use serde_json::{Value, json};

use crate::support::{self, Folder};

tests! {
    always: [
        every_beginning_of_a_file_is_read_or_refused_in_a_line,
        a_line_that_is_no_record_is_skipped_and_said,
        packed_files_are_read_also_where_they_end_early,
        a_file_that_grows_is_read_as_far_as_it_is_written,
    ],
    real: [real_files_survive_damage],
}

/// Runs only when it is asked for: `-- --ignored a_gigabyte`.
pub(crate) fn huge() -> Vec<libtest_mimic::Trial> {
    vec![crate::trial(
        module_path!(),
        ("a_gigabyte_is_read_in_little_memory", a_gigabyte_is_read_in_little_memory, false),
    )]
}

fn claude(number: usize, parent: usize, words: &str) -> Value {
    let (kind, content) = match number % 2 {
        0 => ("assistant", json!([{"type": "text", "text": words}])),
        _ => ("user", json!(words)),
    };
    let message = json!({"id": format!("m{number}"), "role": kind, "content": content, "model": "claude-opus-4-6"});
    json!({
        "type": kind, "uuid": format!("u{number}"), "parentUuid": (parent > 0).then(|| format!("u{parent}")),
        "sessionId": "s-1", "isSidechain": false, "timestamp": "2026-03-01T10:00:00Z", "message": message,
    })
}

fn codex(number: usize, words: &str) -> Value {
    let (role, kind) = if number % 2 == 1 { ("user", "input_text") } else { ("assistant", "output_text") };
    let item = json!({"type": "message", "role": role, "content": [{"type": kind, "text": words}]});
    json!({"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": item})
}

fn lines(records: impl IntoIterator<Item = Value>) -> String {
    records.into_iter().map(|record| format!("{record}\n")).collect()
}

/// A file is read, is none of ours, or is refused in one line.
fn survives(path: &Path) -> Option<usize> {
    let one_line = |unread: SessionReadError| {
        let text = unread.to_string();
        assert!(!text.is_empty() && !text.contains('\n') && !text.ends_with('.'), "{text}");
    };
    let place = match longhaul_agents::recognize_path(path) {
        Ok(place) => place?,
        Err(unread) => {
            one_line(unread);
            return None;
        }
    };
    let mut turns = None;
    for extent in [Extent::FullHistory, Extent::NextRequest] {
        match longhaul_agents::read(&place, &ReadOptions { extent, ..ReadOptions::default() }) {
            Ok(session) => {
                let text = request_body(&session);
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", path.display());
                assert!(wire::parse(session.api_format, &text).is_ok());
                turns = Some(session.messages.len());
            }
            Err(unread) => one_line(unread),
        }
    }
    turns
}

fn every_beginning_of_a_file_is_read_or_refused_in_a_line() {
    let folder = Folder::new();
    let files = [
        lines((1..=6).map(|n| claude(n, n - 1, "ein Krug für \"Öl\""))),
        lines((1..=6).map(|n| codex(n, "ein Krug für \"Öl\""))),
    ];
    for text in files {
        let mut most = 0;
        for end in 0..=text.len() {
            let turns = survives(&folder.file("s.jsonl", &text.as_bytes()[..end])).unwrap_or(0);
            assert!(turns >= most, "byte {end}: {turns} turns after {most}");
            most = turns;
        }
        assert_eq!(most, 6);
        for at in 0..text.len() {
            for bit in [0x01, 0x20, 0x80] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= bit;
                survives(&folder.file("s.jsonl", bytes));
            }
        }
    }
}

fn a_line_that_is_no_record_is_skipped_and_said() {
    let folder = Folder::new();
    let text = format!("{}{{\"type\":\n\0\0\0\n{}", lines([claude(1, 0, "a")]), lines([claude(2, 1, "b")]));
    let cut = format!("{text}{{\"type\":\"us");
    let read = |text: &str| support::read(&folder.file("s.jsonl", text), &ReadOptions::default()).unwrap();
    assert_eq!(read(&text).messages.len(), 2);
    assert_eq!(read(&text).warnings, ["skipped 2 lines that are not valid records, the first is line 2"]);
    assert_eq!(read(&cut).messages.len(), 2);
    assert_eq!(read(&cut).warnings[1], "skipped the last line (5), which is incomplete");
    let whole = text.trim_end();
    assert_eq!(read(whole).messages.len(), 2, "a last line without an end is a line");
    assert_eq!(read(&format!("\u{feff}{text}")).messages.len(), 2);
    assert_eq!(read(&text.replace('\n', "\r\n\r\n")).messages.len(), 2);
}

fn packed_files_are_read_also_where_they_end_early() {
    let folder = Folder::new();
    let text = lines((1..=4000).map(|n| codex(n, &format!("pot {n} {}", n * 7919 % 1009))));
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let read = |name: &str, bytes: &[u8]| support::read(&folder.file(name, bytes), &ReadOptions::default());
    assert_eq!(read("s.jsonl.gz", &packed).unwrap().messages.len(), 4000);
    let half = read("s.jsonl.gz", &packed[..packed.len() / 2]).unwrap();
    assert!((1000..3000).contains(&half.messages.len()), "{}", half.messages.len());
    assert!(half.warnings[0].contains("decompression failed before the end"), "{:?}", half.warnings);
    let zst = ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(read("s.jsonl.zst", &zst).unwrap().messages.len(), 4000);
    survives(&folder.file("s.jsonl.zst", &zst[..zst.len() / 2]));
}

fn a_file_that_grows_is_read_as_far_as_it_is_written() {
    let folder = Folder::new();
    let path = folder.file("s.jsonl", lines([claude(1, 0, "a")]));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            for number in 2..=400 {
                let line = lines([claude(number, number - 1, &"pot ".repeat(500))]);
                // A writer stops anywhere.
                let (begin, end) = line.split_at(line.len() * (number % 7) / 7);
                file.write_all(begin.as_bytes()).unwrap();
                std::thread::yield_now();
                file.write_all(end.as_bytes()).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut most = 0;
        loop {
            let last = done.load(Ordering::SeqCst);
            let turns = support::read(&path, &ReadOptions::default()).unwrap().messages.len();
            assert!(turns >= most, "{turns} after {most}");
            most = turns;
            if last {
                break;
            }
        }
        assert_eq!(most, 400);
    });
}

fn real_files_survive_damage() {
    let folder = Folder::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(support::real()).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        let is_session = entry.is_file() && !["INDEX.csv", "FORMATS.md"].contains(&name.as_str());
        let Ok(bytes) = std::fs::read(&entry) else { continue };
        if !is_session || bytes.len() > 500_000 {
            continue;
        }
        seen += 1;
        for part in 1..=12 {
            survives(&folder.file(&name, &bytes[..bytes.len() * part / 12]));
            let mut flipped = bytes.clone();
            for at in (part * 37..flipped.len()).step_by(5003 * part) {
                flipped[at] ^= 1 << (part % 8);
            }
            survives(&folder.file(&name, flipped));
        }
    }
    assert!(seen > 15, "{seen}");
}

/// A session that was compacted now and then, with the progress of tools between its turns, as they grow in months.
fn a_gigabyte_is_read_in_little_memory() {
    let folder = Folder::new();
    let path = grown(&folder, 1 << 30);
    let size = std::fs::metadata(&path).unwrap().len();
    let before = peak();
    let start = Instant::now();
    let session = support::read(&path, &ReadOptions::default()).unwrap();
    println!(
        "{size} bytes: {} turns of {} compactions in {:.1} s, {} KiB more at the peak",
        session.messages.len(),
        session.compactions,
        start.elapsed().as_secs_f64(),
        peak() - before
    );
    assert!(session.messages.len() < 1000);
    assert!(peak() - before < 200 * 1024, "the file was held in memory");
}

fn grown(folder: &Folder, size: u64) -> PathBuf {
    let path = folder.file("huge.jsonl", "");
    let mut file = std::io::BufWriter::new(File::create(&path).unwrap());
    let words = "a pot of clay ".repeat(300);
    let mut number = 0;
    let mut written = 0;
    while written < size {
        number += 1;
        let line = match number % 400 {
            0 => json!({
                "type": "system", "subtype": "compact_boundary", "uuid": format!("u{number}"), "parentUuid": null,
                "logicalParentUuid": format!("u{}", number - 1), "sessionId": "s-1", "compactMetadata": {"trigger": "auto"},
            }),
            1 => {
                let mut line = claude(number, number - 1, "So far pots were made.");
                line["isCompactSummary"] = json!(true);
                line
            }
            _ => claude(number, number - 1, &words),
        };
        let line = format!("{line}\n");
        written += line.len() as u64;
        file.write_all(line.as_bytes()).unwrap();
    }
    file.flush().unwrap();
    path
}

/// The most memory that this process had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
