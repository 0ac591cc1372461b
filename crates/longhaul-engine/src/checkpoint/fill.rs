//! Which forms a budget buys: every candidate has forms from short to long, and the next one is bought where it is worth most
//! per token.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A form of a candidate: what it costs in all, and what each token is worth that it takes beyond the form before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) tokens: u64,
    pub(crate) rate: f64,
}

/// Something that could be bought.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// What it stands under; the first of a group pays for the heading.
    pub(crate) group: usize,
    /// Its forms, from short to long; each token of a longer one is worth less.
    pub(crate) forms: Vec<Form>,
}

/// What was bought, in the order of buying: an offer, and which of its forms.
#[derive(Debug, Default)]
pub(crate) struct Bought(Vec<(usize, usize)>);

impl Bought {
    /// The form of an offer that was bought last; none if it was not bought.
    pub(crate) fn forms(&self, offers: usize) -> Vec<Option<usize>> {
        let mut forms = vec![None; offers];
        self.0.iter().for_each(|(offer, form)| forms[*offer] = Some(*form));
        forms
    }

    /// Gives back what was bought last, until about so many tokens are free again. Says whether there was anything to give back.
    pub(crate) fn give_back(&mut self, offers: &[Offer], tokens: u64) -> bool {
        let mut freed = 0;
        let before = self.0.len();
        while let Some((offer, form)) = self.0.pop_if(|_| freed < tokens) {
            let forms = &offers[offer].forms;
            freed += forms[form].tokens - form.checked_sub(1).map_or(0, |before| forms[before].tokens);
        }
        self.0.len() < before
    }

    /// All that this one bought, and then that one.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// Buys within a budget. `openings` is what the heading of each group costs that has none yet.
pub(crate) fn fill(
    offers: &[Offer],
    openings: &mut [u64],
    budget: &mut u64,
    wanted: impl Fn(usize) -> bool,
) -> Bought {
    let mut heap: BinaryHeap<Next> = BinaryHeap::new();
    let next = |offer: usize, form: usize| {
        offers[offer].forms.get(form).map(|of| Next { rate: of.rate, offer, form })
    };
    heap.extend((0..offers.len()).filter(|offer| wanted(*offer)).filter_map(|offer| next(offer, 0)));
    let mut bought = Bought::default();
    while let Some(Next { offer, form, .. }) = heap.pop() {
        let Offer { group, forms } = &offers[offer];
        let before = form.checked_sub(1).map_or(0, |before| forms[before].tokens);
        let cost = forms[form].tokens.saturating_sub(before) + openings[*group];
        if cost > *budget {
            continue;
        }
        *budget -= cost;
        openings[*group] = 0;
        bought.0.push((offer, form));
        heap.extend(next(offer, form + 1));
    }
    bought
}

/// A form that could be bought next; of equals, that of the later offer.
struct Next {
    rate: f64,
    offer: usize,
    form: usize,
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rate.total_cmp(&other.rate).then(self.offer.cmp(&other.offer))
    }
}
impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Next {}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(group: usize, forms: &[(u64, f64)]) -> Offer {
        Offer {
            group,
            forms: forms.iter().map(|(tokens, rate)| Form { tokens: *tokens, rate: *rate }).collect(),
        }
    }

    #[test]
    fn what_is_worth_most_per_token_is_bought_first_and_given_back_last() {
        let offers = [offer(0, &[(10, 5.0), (30, 1.0)]), offer(1, &[(10, 4.0)]), offer(1, &[(50, 2.0)])];
        let (mut budget, mut openings) = (46, vec![3, 3]);
        let mut bought = fill(&offers, &mut openings, &mut budget, |_| true);
        assert_eq!((bought.forms(3), budget), (vec![Some(1), Some(0), None], 0));
        assert!(bought.give_back(&offers, 1));
        assert_eq!(bought.forms(3), [Some(0), Some(0), None]);
    }
}
