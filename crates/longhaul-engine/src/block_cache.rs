//! A bounded cache of results for single blocks, keyed by content: a request that grew by one message costs
//! only the work for that message.
//!
//! There is one map for token counts, one for texts without secrets, and one for values of any type that
//! other modules compute. A small number in the key separates values of different types for the same content.
//!
//! Memory is bounded: a map keeps two generations, and an entry that nobody read during a whole generation is
//! dropped.
//!
//! This module may use `tokens`, `parallel` and the modules below them. It names none of the types that other
//! modules cache here.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

use crate::parallel;
use crate::tokens::{TokenCounter, Tokens, Vocabulary};

/// A hash of a block's content: of its bytes as they are in the request body.
///
/// Every block is hashed on every request, so the hash is chosen for speed and is not cryptographic. Somebody
/// could forge two texts with the same key, but would only get a wrong count or a wrong line in their own
/// session. Nothing that must not be confused is keyed by it, except texts without secrets: to forge one of
/// these, an attacker would have to know the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentKey(u128);

impl ContentKey {
    /// Computes the key of these bytes. The same bytes can mean different texts (a JSON string, JSON itself,
    /// JSON inside a string), so `form`, the number of the form, is part of the key.
    #[must_use]
    pub fn new(form: u8, raw: &[u8]) -> Self {
        Self(xxh3_128_with_seed(raw, u64::from(form)))
    }

    /// Computes the key of several parts together. The boundaries between the parts are included in the key.
    pub(crate) fn from_parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hash = Xxh3::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.digest128())
    }
}

/// A map by content that uses the key itself as the hash.
pub(crate) type ContentMap<V> = HashMap<ContentKey, V, BuildHasherDefault<ContentKeyHasher>>;

/// Computes the keys of longer and longer beginnings of a text, in one pass over it.
pub(crate) struct PrefixHasher<'t> {
    text: &'t [u8],
    at: usize,
    hash: Xxh3,
}

impl<'t> PrefixHasher<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), at: 0, hash: Xxh3::new() }
    }

    /// Returns the key of the text up to `end`, or `None` if that is past the end of the text or before the
    /// last `end`.
    pub(crate) fn key_up_to(&mut self, end: usize) -> Option<ContentKey> {
        self.hash.update(self.text.get(self.at..end)?);
        self.at = end;
        Some(ContentKey(self.hash.digest128()))
    }
}

/// The keys of texts in which the standard rules find no secret. Redactors on several threads share one
/// value.
///
/// To forge a text without secrets that has the key of a text with a secret, an attacker would have to know
/// the secret.
#[derive(Debug)]
pub(crate) struct CleanTexts(Arc<Mutex<Generations<ContentKey, NoValue>>>);

impl CleanTexts {
    fn with_capacity(texts: usize) -> Self {
        Self(Arc::new(Mutex::new(Generations::with_capacity(texts))))
    }

    fn lock(&self) -> MutexGuard<'_, Generations<ContentKey, NoValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a second owner of the same set.
    pub(crate) fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(crate) fn contains(&self, key: ContentKey) -> bool {
        self.lock().get(key).is_some()
    }

    pub(crate) fn insert(&self, key: ContentKey) {
        self.lock().get_or_insert_with(key, || NoValue);
    }
}

/// A clone copies the set; later changes of one do not appear in the other. To share the set, call
/// `CleanTexts::share`.
impl Clone for CleanTexts {
    fn clone(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }
}

/// The value of a set entry, which has nothing but its key.
#[derive(Debug, Clone, Copy)]
struct NoValue;

/// A cache of facts about blocks. Reading needs `&mut`, because each read keeps the entry in the cache.
#[derive(Debug, Clone)]
pub struct BlockCache {
    counts: Generations<(ContentKey, Vocabulary), Tokens>,
    values: Generations<(ContentKey, u8), CachedValue>,
    clean: CleanTexts,
    threads: NonZeroUsize,
}

impl BlockCache {
    /// Creates a cache with room for `facts` entries of each kind in a generation. A count takes about 60
    /// bytes; a larger value uses one entry for each 64 bytes. There are at most two generations. A request
    /// with more blocks than `facts` is computed again each time.
    #[must_use]
    pub fn with_capacity(facts: usize) -> Self {
        Self {
            counts: Generations::with_capacity(facts),
            values: Generations::with_capacity(facts),
            clean: CleanTexts::with_capacity(facts),
            threads: NonZeroUsize::MIN,
        }
    }

    /// Returns the value for each item, and computes the missing ones in parallel. `key` returns the content
    /// of an item and the number that separates values of different types for the same content.
    pub(crate) fn get_or_compute_all<I: Sync, T: Cacheable>(
        &mut self,
        items: &[I],
        key: impl Fn(&I) -> (ContentKey, u8),
        make: impl Fn(&I) -> T + Sync,
    ) -> Vec<Arc<T>> {
        let (found, missing) = find_known(items, &key, |(content, form)| self.get(content, form));
        let threads = self.threads_for(missing.len(), items.len());
        let new = parallel::map(threads, &missing, |item| Arc::new(make(item)));
        for (item, value) in missing.iter().zip(&new) {
            self.values.insert(key(item), CachedValue { size_bytes: value.size_bytes(), value: value.clone() });
        }
        found.into_iter().map(|entry| entry.unwrap_or_else(|at| Arc::clone(&new[at]))).collect()
    }

    /// Returns the value that was inserted under a key.
    pub(crate) fn get<T: Cacheable>(&mut self, key: ContentKey, form: u8) -> Option<Arc<T>> {
        self.values.get((key, form)).and_then(|memory| memory.value.downcast().ok())
    }

    /// Inserts a value under a key.
    pub(crate) fn insert<T: Cacheable>(&mut self, key: ContentKey, form: u8, value: T) {
        self.values.insert((key, form), CachedValue { size_bytes: value.size_bytes(), value: Arc::new(value) });
    }

    /// Returns the number of threads for `new` of `all` items. For a small part, starting threads takes
    /// longer than the work.
    fn threads_for(&self, new: usize, all: usize) -> NonZeroUsize {
        if new * 8 < all { NonZeroUsize::MIN } else { self.threads }
    }

    /// Returns the shared set of texts that contain no secrets.
    pub(crate) fn clean_texts(&self) -> CleanTexts {
        self.clean.share()
    }

    /// Sets the number of threads that compute missing values. The results do not depend on it. The default
    /// is one.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// Returns the tokens of a block, and counts them only if the count is not cached. `text` is called only
    /// then. The cache contains counts without the factor, so models with the same vocabulary share them.
    pub fn count_tokens<T: AsRef<str>>(
        &mut self,
        counter: TokenCounter,
        key: ContentKey,
        text: impl FnOnce() -> T,
    ) -> Tokens {
        let count = || counter.vocabulary.count(text().as_ref());
        counter.factor.apply(self.counts.get_or_insert_with((key, counter.vocabulary), count))
    }

    /// Returns the tokens of many blocks in their order. Missing counts are computed in parallel.
    pub fn count_all_tokens<B: Sync, T: AsRef<str>>(
        &mut self,
        counter: TokenCounter,
        blocks: &[(ContentKey, B)],
        text: impl Fn(&B) -> T + Sync,
    ) -> Vec<Tokens> {
        let TokenCounter { vocabulary, factor } = counter;
        let key = |(key, _): &(ContentKey, B)| (*key, vocabulary);
        let (found, missing) = find_known(blocks, key, |key| self.counts.get(key));
        let threads = self.threads_for(missing.len(), blocks.len());
        let made = parallel::map(threads, &missing, |(_, block)| vocabulary.count(text(block).as_ref()));
        for (block, tokens) in missing.iter().zip(&made) {
            self.counts.insert(key(block), *tokens);
        }
        found.into_iter().map(|entry| factor.apply(entry.unwrap_or_else(|at| made[at]))).collect()
    }

    /// Starts a new generation and drops the entries that were not read since the previous call. A full
    /// generation also starts a new one.
    pub fn start_generation(&mut self) {
        self.counts.start_generation();
        self.values.start_generation();
        self.clean.lock().start_generation();
    }

    /// Returns the number of cached entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len() + self.values.len() + self.clean.lock().len()
    }

    /// Returns whether the cache has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Has room for the blocks of a few very long sessions: at most about 16 MB of counts and as much of other
/// values.
impl Default for BlockCache {
    fn default() -> Self {
        Self::with_capacity(128 * 1024)
    }
}

type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<ContentKeyHasher>>;

/// Looks up each item. Returns a value for each known item and, for the others, an index into the list of
/// missing items. Items with the same key share one entry in that list.
fn find_known<'i, I, K: Copy + Eq + Hash, V>(
    items: &'i [I],
    key: impl Fn(&I) -> K,
    mut get: impl FnMut(K) -> Option<V>,
) -> (Vec<Result<V, usize>>, Vec<&'i I>) {
    let (mut places, mut missing): (KeyMap<K, usize>, _) = (KeyMap::default(), Vec::new());
    let mut look_up = |item: &'i I| {
        let key = key(item);
        get(key).ok_or_else(|| {
            *places.entry(key).or_insert_with(|| {
                missing.push(item);
                missing.len() - 1
            })
        })
    };
    let found = items.iter().map(&mut look_up).collect();
    (found, missing)
}

/// A hasher for keys that are hashes already. It mixes in the other fields of a compound key.
#[derive(Default)]
pub(crate) struct ContentKeyHasher(u64);

impl ContentKeyHasher {
    fn mix(&mut self, more: u64) {
        self.0 = (self.0.rotate_left(29) ^ more).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for ContentKeyHasher {
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

/// A value that takes up capacity: one unit for each 64 bytes or part of them.
trait Weighted {
    fn weight(&self) -> usize;
}

impl Weighted for Tokens {
    fn weight(&self) -> usize {
        1
    }
}

impl Weighted for NoValue {
    fn weight(&self) -> usize {
        1
    }
}

/// A value that other modules may cache. It reports its size in bytes.
pub(crate) trait Cacheable: Send + Sync + 'static {
    fn size_bytes(&self) -> usize;
}

/// A cached value of any type, with its size in bytes.
#[derive(Debug, Clone)]
struct CachedValue {
    size_bytes: usize,
    value: Arc<dyn Any + Send + Sync>,
}

impl Weighted for CachedValue {
    fn weight(&self) -> usize {
        1 + self.size_bytes / 64
    }
}

/// A map with two generations. A read moves an entry to the young generation; when that one is full, it
/// becomes the old one and the previous old one is dropped.
#[derive(Debug, Clone)]
struct Generations<K, V> {
    capacity: usize,
    /// The part of the capacity that the young generation uses.
    used: usize,
    young: KeyMap<K, V>,
    old: KeyMap<K, V>,
}

impl<K: Copy + Eq + Hash, V: Clone + Weighted> Generations<K, V> {
    fn with_capacity(room: usize) -> Self {
        Self { capacity: room.max(1), used: 0, young: KeyMap::default(), old: KeyMap::default() }
    }

    fn get_or_insert_with(&mut self, key: K, compute: impl FnOnce() -> V) -> V {
        self.get(key).unwrap_or_else(|| self.insert(key, compute()))
    }

    fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(value.clone());
        }
        let value = self.old.remove(&key)?;
        Some(self.insert(key, value))
    }

    fn insert(&mut self, key: K, value: V) -> V {
        if self.used >= self.capacity {
            self.start_generation();
        }
        self.used += value.weight();
        self.young.insert(key, value.clone());
        value
    }

    fn start_generation(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.used = 0;
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

    use super::{BlockCache, ContentKey};
    use crate::tokens::{TokenCounter, TokenFactor, Tokens, Vocabulary};

    const COUNTER: TokenCounter = TokenCounter::exact(Vocabulary::O200kBase);

    /// Counts `text` through the cache and returns whether the text was read.
    fn counts_anew(cache: &mut BlockCache, counter: TokenCounter, text: &str) -> bool {
        let looked = Cell::new(false);
        let tokens = cache.count_tokens(counter, ContentKey::new(0, text.as_bytes()), || {
            looked.set(true);
            text
        });
        assert_eq!(tokens, counter.count(text));
        looked.get()
    }

    #[test]
    fn what_was_counted_is_not_counted_again() {
        let mut cache = BlockCache::default();
        assert!(counts_anew(&mut cache, COUNTER, "one two three"));
        assert!(!counts_anew(&mut cache, COUNTER, "one two three"));
        assert!(counts_anew(&mut cache, COUNTER, "one two four"));
    }

    #[test]
    fn a_factor_needs_no_new_count_but_another_vocabulary_does() {
        let mut cache = BlockCache::default();
        assert!(counts_anew(&mut cache, COUNTER, "hello"));
        let factor = TokenFactor::from_thousandths(1_150);
        assert!(!counts_anew(&mut cache, TokenCounter { factor, ..COUNTER }, "hello"));
        assert!(counts_anew(&mut cache, TokenCounter::exact(Vocabulary::Cl100kBase), "hello"));
    }

    #[test]
    fn the_same_bytes_in_another_form_are_another_content() {
        let mut cache = BlockCache::default();
        let raw = br"a\nb";
        assert_eq!(cache.count_tokens(COUNTER, ContentKey::new(0, raw), || "a\nb"), COUNTER.count("a\nb"));
        assert_eq!(cache.count_tokens(COUNTER, ContentKey::new(1, raw), || r"a\nb"), COUNTER.count(r"a\nb"));
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_after_two_turns() {
        let mut cache = BlockCache::default();
        counts_anew(&mut cache, COUNTER, "used");
        counts_anew(&mut cache, COUNTER, "unused");
        for _ in 0..3 {
            cache.start_generation();
            assert!(!counts_anew(&mut cache, COUNTER, "used"));
        }
        assert!(counts_anew(&mut cache, COUNTER, "unused"));
    }

    #[test]
    fn counting_ahead_on_threads_counts_each_unknown_text_once_and_changes_no_count() {
        let texts: Vec<String> = (0..200).map(|n| format!("text number {} ", n % 50).repeat(n % 50)).collect();
        let blocks: Vec<_> = texts.iter().map(|text| (ContentKey::new(0, text.as_bytes()), text)).collect();
        for threads in [1, 2, 8] {
            let mut cache = BlockCache::default().with_threads(NonZeroUsize::new(threads).unwrap());
            counts_anew(&mut cache, COUNTER, &texts[49]);
            let counted = AtomicUsize::new(0);
            cache.count_all_tokens(COUNTER, &blocks, |text| {
                counted.fetch_add(1, Ordering::Relaxed);
                *text
            });
            assert_eq!(counted.into_inner(), 49);
            assert!(texts.iter().all(|text| !counts_anew(&mut cache, COUNTER, text)));
        }
    }

    #[test]
    fn memory_is_bounded_however_much_passes() {
        let mut cache = BlockCache::with_capacity(10);
        for n in 0..1_000 {
            counts_anew(&mut cache, COUNTER, &format!("block {n}"));
            assert!(cache.len() <= 20);
        }
        assert!(!cache.is_empty());
        assert_eq!(cache.count_tokens(COUNTER, ContentKey::new(0, b""), || ""), Tokens::ZERO);
    }
}
