//! Lays out what counting tokens reads: the ranks of `o200k_base`, and the classes of characters.

#![allow(dead_code, reason = "the modules shared with the engine are read there")]

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

#[path = "src/tokens/vocabulary/class.rs"]
mod class;
#[path = "src/tokens/vocabulary/ranks.rs"]
mod ranks;

use class::{BLOCK_CHARS, BLOCK_COUNT, CharClass};
use ranks::{EMPTY_SLOT, NO_RANK, PAIR_COUNT, RANK_BITS, SLOT_COUNT, hash_token};
use regex_syntax::hir;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tokens/vocabulary");
    let folder = std::env::var("OUT_DIR")?;
    let folder = Path::new(&folder);
    std::fs::write(folder.join("o200k_base"), ranks_of("o200k_base")?)?;
    std::fs::write(folder.join("classes"), classes()?)?;
    Ok(())
}

/// The table that `ranks.rs` reads. Tokens of one byte are left out: every byte is one, and nobody asks.
fn ranks_of(vocabulary: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let tokenizer = tiktoken::get_encoding(vocabulary).ok_or("the vocabulary is not in the crate")?;
    let mut pairs = vec![NO_RANK; PAIR_COUNT];
    let mut slots = vec![EMPTY_SLOT; SLOT_COUNT];
    for rank in 0..u32::try_from(tokenizer.vocab_size())? {
        match tokenizer.decode(&[rank])[..] {
            [] => return Err(format!("{vocabulary} has no token of rank {rank}").into()),
            [_] => {}
            [first, second] => pairs[usize::from(first) << 8 | usize::from(second)] = rank,
            ref token => {
                let hash = hash_token(token);
                let mut at = hash as usize % SLOT_COUNT;
                while slots[at] != EMPTY_SLOT {
                    assert_ne!(slots[at] >> RANK_BITS, hash >> RANK_BITS, "two tokens look alike: {token:?}");
                    at = (at + 1) % SLOT_COUNT;
                }
                slots[at] = (hash >> RANK_BITS) << RANK_BITS | u64::from(rank);
            }
        }
    }
    let pairs = pairs.iter().flat_map(|rank| rank.to_le_bytes());
    Ok(pairs.chain(slots.iter().flat_map(|slot| slot.to_le_bytes())).collect())
}

/// The table that `class.rs` reads.
fn classes() -> Result<Vec<u8>, Box<dyn Error>> {
    let members = [
        (CharClass::UPPER, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"),
        (CharClass::LOWER, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"),
        (CharClass::LETTER, r"\p{L}"),
        (CharClass::NUMBER, r"\p{N}"),
        (CharClass::SPACE, r"\s"),
        (CharClass::LINE_END, r"[\r\n]"),
        (CharClass::SLASH, r"[/]"),
        (CharClass::SYMBOL, r"[^\s\p{L}\p{N}]"),
    ];
    let mut by_character = vec![0_u8; BLOCK_CHARS * BLOCK_COUNT];
    for (class, expression) in members {
        for (first, last) in characters(expression)? {
            by_character[first as usize..=last as usize].iter_mut().for_each(|bits| *bits |= class.0);
        }
    }
    let (mut index, mut rows, mut cache) = (Vec::new(), Vec::new(), HashMap::new());
    for row in by_character.chunks(BLOCK_CHARS) {
        let next = u8::try_from(cache.len())?;
        index.push(*cache.entry(row).or_insert_with(|| {
            rows.extend_from_slice(row);
            next
        }));
    }
    index.extend(rows);
    Ok(index)
}

/// The ranges of characters that a class names.
fn characters(expression: &str) -> Result<Vec<(char, char)>, Box<dyn Error>> {
    match regex_syntax::parse(expression)?.into_kind() {
        hir::HirKind::Class(hir::Class::Unicode(class)) => {
            Ok(class.ranges().iter().map(|range| (range.start(), range.end())).collect())
        }
        hir::HirKind::Literal(literal) => {
            Ok(std::str::from_utf8(&literal.0)?.chars().map(|character| (character, character)).collect())
        }
        other => Err(format!("{expression} is no class of characters: {other:?}").into()),
    }
}
