//! What was computed per block before, keyed by content: a body that grew by one message costs what the message costs.
//!
//! Counts, clean texts and memories have a map each; a memory is a value of any type, told apart from others of the same
//! content by a number. Memory is bounded: a map keeps two generations, and what nobody asked for during a whole one is
//! forgotten.
//!
//! It may use `tokens`, `parallel` and what is below them, and names none of the values that others leave here.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

use crate::parallel;
use crate::tokens::{Counter, Tokens, Vocabulary};

/// The identity of a block's content: a hash of its bytes as they stand in the body.
///
/// Every block of a body is hashed on every turn, so this one is chosen for speed. Somebody could make two texts that share
/// a key; all it would earn them is a wrong count or a wrong line in their own session. What must not be mixed up is not
/// keyed by it, clean texts apart: to forge one, one would have to know the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentKey(u128);

impl ContentKey {
    /// The key of these bytes. The same bytes can mean different texts (a JSON string, JSON itself, JSON inside a
    /// string), so the form they are read in is part of the identity.
    #[must_use]
    pub fn of(form: u8, raw: &[u8]) -> Self {
        Self(xxh3_128_with_seed(raw, u64::from(form)))
    }

    /// The key of several pieces together, where each of them ends being part of it.
    pub(crate) fn of_parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hash = Xxh3::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.digest128())
    }
}

/// What is kept by content, found by the key as it is.
pub(crate) type ByContent<V> = HashMap<ContentKey, V, BuildHasherDefault<AsIs>>;

/// The keys of ever longer beginnings of a text, in one pass over it.
pub(crate) struct Passing<'t> {
    text: &'t [u8],
    at: usize,
    hash: Xxh3,
}

impl<'t> Passing<'t> {
    pub(crate) fn over(text: &'t str) -> Self {
        Self { text: text.as_bytes(), at: 0, hash: Xxh3::new() }
    }

    /// The key of the text up to here; none if that is beyond its end, or behind what was asked for last.
    pub(crate) fn up_to(&mut self, end: usize) -> Option<ContentKey> {
        self.hash.update(self.text.get(self.at..end)?);
        self.at = end;
        Some(ContentKey(self.hash.digest128()))
    }
}

/// Texts in which the standard rules find no secret. Redactors share it, on whichever thread they are.
///
/// Whoever could make a text without a secret that has the key of one with a secret would have to know the secret.
#[derive(Debug)]
pub(crate) struct Clean(Arc<Mutex<Generations<ContentKey, Nothing>>>);

impl Clean {
    fn with_room(texts: usize) -> Self {
        Self(Arc::new(Mutex::new(Generations::with_room(texts))))
    }

    fn texts(&self) -> MutexGuard<'_, Generations<ContentKey, Nothing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same memory, for somebody else to use too.
    pub(crate) fn shared(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(crate) fn holds(&self, key: ContentKey) -> bool {
        self.texts().get(key).is_some()
    }

    pub(crate) fn note(&self, key: ContentKey) {
        self.texts().value(key, || Nothing);
    }
}

/// A copy of what is known learns by itself from then on.
impl Clone for Clean {
    fn clone(&self) -> Self {
        Self(Arc::new(Mutex::new(self.texts().clone())))
    }
}

/// What there is to know of a text without secrets.
#[derive(Debug, Clone, Copy)]
struct Nothing;

/// Facts about blocks that were seen before. It needs `&mut` even to look something up, because a look keeps it alive.
#[derive(Debug, Clone)]
pub struct Known {
    counts: Generations<(ContentKey, Vocabulary), Tokens>,
    memories: Generations<(ContentKey, u8), Memory>,
    clean: Clean,
    threads: NonZeroUsize,
}

impl Known {
    /// Room for so many facts of each kind in a generation. A count takes about 60 bytes, a memory as much room as counts
    /// of its size would, and there are at most two generations; a body with more blocks than this is read again each time.
    #[must_use]
    pub fn with_room(facts: usize) -> Self {
        Self {
            counts: Generations::with_room(facts),
            memories: Generations::with_room(facts),
            clean: Clean::with_room(facts),
            threads: NonZeroUsize::MIN,
        }
    }

    /// What is made of each of these, made now only if it was not before. `key` says what an item is made of, and tells apart what
    /// is made of the same content. What is missing is made side by side.
    pub(crate) fn remember_all<I: Sync, T: Remembered>(
        &mut self,
        items: &[I],
        key: impl Fn(&I) -> (ContentKey, u8),
        make: impl Fn(&I) -> T + Sync,
    ) -> Vec<Arc<T>> {
        let (found, missing) = looked_up(items, &key, |(content, form)| self.recall(content, form));
        let threads = self.threads_for(missing.len(), items.len());
        let new = parallel::map(threads, &missing, |item| Arc::new(make(item)));
        for (item, value) in missing.iter().zip(&new) {
            self.memories.keep(key(item), Memory { size: value.size(), value: value.clone() });
        }
        found.into_iter().map(|known| known.unwrap_or_else(|at| Arc::clone(&new[at]))).collect()
    }

    /// What was left under a key.
    pub(crate) fn recall<T: Remembered>(&mut self, key: ContentKey, form: u8) -> Option<Arc<T>> {
        self.memories.get((key, form)).and_then(|memory| memory.value.downcast().ok())
    }

    /// Leaves something under a key.
    pub(crate) fn leave<T: Remembered>(&mut self, key: ContentKey, form: u8, value: T) {
        self.memories.keep((key, form), Memory { size: value.size(), value: Arc::new(value) });
    }

    /// To hand over what little is new takes longer than to do it.
    fn threads_for(&self, new: usize, all: usize) -> NonZeroUsize {
        if new * 8 < all { NonZeroUsize::MIN } else { self.threads }
    }

    /// Which texts hold no secrets.
    pub(crate) fn clean(&self) -> Clean {
        self.clean.shared()
    }

    /// Computes what is not known on so many threads, instead of one. What comes out is the same.
    #[must_use]
    pub fn on_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// The tokens of a block, counted now only if they were not before; `text` is called only then. The factor is
    /// applied to what is remembered, so models that share a vocabulary share its counts.
    pub fn count<T: AsRef<str>>(
        &mut self,
        counter: Counter,
        key: ContentKey,
        text: impl FnOnce() -> T,
    ) -> Tokens {
        let count = || counter.vocabulary.count(text().as_ref());
        counter.factor.times(self.counts.value((key, counter.vocabulary), count))
    }

    /// The tokens of many blocks, in their order; those that were not counted before are counted side by side.
    pub fn count_all<B: Sync, T: AsRef<str>>(
        &mut self,
        counter: Counter,
        blocks: &[(ContentKey, B)],
        text: impl Fn(&B) -> T + Sync,
    ) -> Vec<Tokens> {
        let Counter { vocabulary, factor } = counter;
        let key = |(key, _): &(ContentKey, B)| (*key, vocabulary);
        let (found, missing) = looked_up(blocks, key, |key| self.counts.get(key));
        let threads = self.threads_for(missing.len(), blocks.len());
        let made = parallel::map(threads, &missing, |(_, block)| vocabulary.count(text(block).as_ref()));
        for (block, tokens) in missing.iter().zip(&made) {
            self.counts.keep(key(block), *tokens);
        }
        found.into_iter().map(|known| factor.times(known.unwrap_or_else(|at| made[at]))).collect()
    }

    /// Starts a new generation: what was not asked for since the last but one call is forgotten. It also happens by
    /// itself whenever a generation is full.
    pub fn turn(&mut self) {
        self.counts.turn();
        self.memories.turn();
        self.clean.texts().turn();
    }

    /// How many facts are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len() + self.memories.len() + self.clean.texts().len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Room for the blocks of a few very long sessions: at most some 16 MB of counts and as much of memories.
impl Default for Known {
    fn default() -> Self {
        Self::with_room(128 * 1024)
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<AsIs>>;

/// What there is of each item, or which of the missing ones it is. Of items with one key the first is missing for all.
fn looked_up<'i, I, K: Copy + Eq + Hash, V>(
    items: &'i [I],
    key: impl Fn(&I) -> K,
    mut known: impl FnMut(K) -> Option<V>,
) -> (Vec<Result<V, usize>>, Vec<&'i I>) {
    let (mut places, mut missing): (Map<K, usize>, _) = (Map::default(), Vec::new());
    let mut look_up = |item: &'i I| {
        let key = key(item);
        known(key).ok_or_else(|| {
            *places.entry(key).or_insert_with(|| {
                missing.push(item);
                missing.len() - 1
            })
        })
    };
    let found = items.iter().map(&mut look_up).collect();
    (found, missing)
}

/// Keys are hashes of contents already; what stands beside them in a key is mixed in.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl AsIs {
    fn mix(&mut self, more: u64) {
        self.0 = (self.0.rotate_left(29) ^ more).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, more: u64) {
        self.mix(more);
    }

    fn write_u128(&mut self, key: u128) {
        self.mix(key as u64);
    }

    fn write_isize(&mut self, variant: isize) {
        self.mix(variant as u64);
    }
}

/// A value that takes room: one for each 64 bytes or part of them.
trait TakesRoom {
    fn room(&self) -> usize;
}

impl TakesRoom for Tokens {
    fn room(&self) -> usize {
        1
    }
}

impl TakesRoom for Nothing {
    fn room(&self) -> usize {
        1
    }
}

/// What can be remembered: it knows how many bytes it takes.
pub(crate) trait Remembered: Send + Sync + 'static {
    fn size(&self) -> usize;
}

/// A value of whatever type, with the bytes that it takes.
#[derive(Debug, Clone)]
struct Memory {
    size: usize,
    value: Arc<dyn Any + Send + Sync>,
}

impl TakesRoom for Memory {
    fn room(&self) -> usize {
        1 + self.size / 64
    }
}

#[derive(Debug, Clone)]
struct Generations<K, V> {
    room: usize,
    /// How much of it the young take.
    taken: usize,
    young: Map<K, V>,
    old: Map<K, V>,
}

impl<K: Copy + Eq + Hash, V: Clone + TakesRoom> Generations<K, V> {
    fn with_room(room: usize) -> Self {
        Self { room: room.max(1), taken: 0, young: Map::default(), old: Map::default() }
    }

    fn value(&mut self, key: K, compute: impl FnOnce() -> V) -> V {
        self.get(key).unwrap_or_else(|| self.keep(key, compute()))
    }

    fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(value.clone());
        }
        let value = self.old.remove(&key)?;
        Some(self.keep(key, value))
    }

    fn keep(&mut self, key: K, value: V) -> V {
        if self.taken >= self.room {
            self.turn();
        }
        self.taken += value.room();
        self.young.insert(key, value.clone());
        value
    }

    fn turn(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.taken = 0;
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{ContentKey, Known};
    use crate::tokens::{Counter, Factor, Tokens, Vocabulary};

    const COUNTER: Counter = Counter::exact(Vocabulary::O200kBase);

    /// Counts `text` through `known` and says whether it had to be looked at.
    fn looked_at(known: &mut Known, counter: Counter, text: &str) -> bool {
        let looked = Cell::new(false);
        let tokens = known.count(counter, ContentKey::of(0, text.as_bytes()), || {
            looked.set(true);
            text
        });
        assert_eq!(tokens, counter.count(text));
        looked.get()
    }

    #[test]
    fn what_was_counted_is_not_counted_again() {
        let mut known = Known::default();
        assert!(looked_at(&mut known, COUNTER, "one two three"));
        assert!(!looked_at(&mut known, COUNTER, "one two three"));
        assert!(looked_at(&mut known, COUNTER, "one two four"));
    }

    #[test]
    fn a_factor_needs_no_new_count_but_another_vocabulary_does() {
        let mut known = Known::default();
        assert!(looked_at(&mut known, COUNTER, "hello"));
        let factor = Factor::from_thousandths(1_150);
        assert!(!looked_at(&mut known, Counter { factor, ..COUNTER }, "hello"));
        assert!(looked_at(&mut known, Counter::exact(Vocabulary::Cl100kBase), "hello"));
    }

    #[test]
    fn the_same_bytes_in_another_form_are_another_content() {
        let mut known = Known::default();
        let raw = br"a\nb";
        assert_eq!(known.count(COUNTER, ContentKey::of(0, raw), || "a\nb"), COUNTER.count("a\nb"));
        assert_eq!(known.count(COUNTER, ContentKey::of(1, raw), || r"a\nb"), COUNTER.count(r"a\nb"));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_after_two_turns() {
        let mut known = Known::default();
        looked_at(&mut known, COUNTER, "used");
        looked_at(&mut known, COUNTER, "unused");
        for _ in 0..3 {
            known.turn();
            assert!(!looked_at(&mut known, COUNTER, "used"));
        }
        assert!(looked_at(&mut known, COUNTER, "unused"));
    }

    #[test]
    fn counting_ahead_on_threads_counts_each_unknown_text_once_and_changes_no_count() {
        let texts: Vec<String> =
            (0..200).map(|n| format!("text number {} ", n % 50).repeat(n % 50)).collect();
        let blocks: Vec<_> = texts.iter().map(|text| (ContentKey::of(0, text.as_bytes()), text)).collect();
        for threads in [1, 2, 8] {
            let mut known = Known::default().on_threads(NonZeroUsize::new(threads).unwrap());
            looked_at(&mut known, COUNTER, &texts[49]);
            let counted = AtomicUsize::new(0);
            known.count_all(COUNTER, &blocks, |text| {
                counted.fetch_add(1, Ordering::Relaxed);
                *text
            });
            assert_eq!(counted.into_inner(), 49);
            assert!(texts.iter().all(|text| !looked_at(&mut known, COUNTER, text)));
        }
    }

    #[test]
    fn memory_is_bounded_however_much_passes() {
        let mut known = Known::with_room(10);
        for n in 0..1_000 {
            looked_at(&mut known, COUNTER, &format!("block {n}"));
            assert!(known.len() <= 20);
        }
        assert!(!known.is_empty());
        assert_eq!(known.count(COUNTER, ContentKey::of(0, b""), || ""), Tokens::ZERO);
    }
}
