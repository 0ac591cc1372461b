//! The picture of a terminal in the README shows what the program prints today.

use std::process::Command;

use regex::Regex;

use crate::output;

#[test]
fn the_recorded_demo_is_current() {
    let pictures = super::root().join("docs/pictures");
    let (picture, new) =
        (pictures.join("demo.svg"), std::env::temp_dir().join(format!("longhaul-demo-{}.svg", std::process::id())));
    let record = Command::new("python3")
        .arg(pictures.join("record"))
        .arg(env!("CARGO_BIN_EXE_longhaul"))
        .arg(&new)
        .output()
        .unwrap();
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    let tags = Regex::new("<[^>]*>").unwrap();
    let text = |path| tags.replace_all(&std::fs::read_to_string(path).unwrap(), "").replace('\u{a0}', " ");
    let (shown, printed) = (text(&picture), text(&new));
    if !output::same(&shown.lines().map(str::to_owned).collect::<Vec<_>>(), &printed) {
        assert!(
            std::env::var_os("LONGHAUL_BLESS").is_some(),
            "docs/pictures/demo.svg shows\n{shown}\nbut the commands print\n{printed}\nDraw it anew: LONGHAUL_BLESS=1 cargo test -p longhaul --test docs"
        );
        std::fs::copy(&new, &picture).unwrap();
    }
    std::fs::remove_file(new).unwrap();
}
