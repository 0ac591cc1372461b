//! `longhaul digest` through the real binary.

use crate::support::{Folder, longhaul, longhaul_reading};

#[test]
fn an_output_is_digested_from_a_file_and_from_standard_input() {
    let folder = Folder::new("digest");
    let text =
        format!("{}ERROR: disk 7 is full\n[The command completed with exit code 1.]\n", "copied a block\n".repeat(300));
    folder.file("out.txt", &text);
    let from_file = longhaul(&folder, &["digest", "out.txt", "--tokens", "60"], &[]);
    assert_eq!((from_file.code, from_file.err.as_str()), (0, ""));
    assert!(from_file.out.starts_with("[output: 302 lines; exit 1; failed; 1 error line"), "{}", from_file.out);
    assert!(from_file.out.contains("\nERROR: disk 7 is full\n"), "{}", from_file.out);
    let piped = longhaul_reading(&folder, &["digest", "-", "--tokens", "60"], &[], text.as_bytes());
    assert_eq!(piped.out, from_file.out);
}

#[test]
fn programs_get_json_with_the_facts_counted() {
    let folder = Folder::new("digest-json");
    folder.file("rows.csv", format!("id,name,price\n{}", "1,a,2\n".repeat(400)));
    let answer = longhaul(&folder, &["digest", "rows.csv", "--json"], &[]).json("digest.json");
    assert_eq!(
        (&answer["kind"], &answer["facts_before"], &answer["facts_kept"]),
        (&"table".into(), &4.into(), &4.into())
    );
    assert!(answer["tokens_after"].as_u64() < answer["tokens_before"].as_u64());
}

#[test]
fn a_call_is_told_in_one_line() {
    let folder = Folder::new("digest-line");
    folder.file("out.txt", "fine\n".repeat(47));
    let arguments = r#"{"command":"npm test"}"#;
    let run =
        longhaul(&folder, &["digest", "out.txt", "--one-line", "--tool", "terminal", "--arguments", arguments], &[]);
    assert_eq!(run.out, "[terminal] ran `npm test` → 47 lines\n");
}

#[test]
fn what_is_no_text_is_digested_too_and_what_is_not_there_is_said() {
    let folder = Folder::new("digest-bytes");
    folder.file("image", [0x89, b'P', b'N', b'G', 0, 1, 2, 0xff].repeat(200));
    let answer = longhaul(&folder, &["digest", "image", "--json"], &[]).json("digest.json");
    assert_eq!(answer["kind"], "binary");
    let said = answer["text"].as_str().unwrap();
    assert!(said.starts_with("[binary: 1 line, 1,600 bytes; PNG image"), "what was given is counted: {said}");
    let line = longhaul(&folder, &["digest", "image", "--one-line"], &[]).out;
    assert_eq!(line, "[tool] 1 line, 1,600 bytes\n");
    assert!(longhaul(&folder, &["digest", "missing"], &[]).refused().contains("does not exist"));
    assert!(longhaul(&folder, &["digest", "image", "--kind", "song"], &[]).refused().contains("search-results"));
}
