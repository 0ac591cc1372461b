//! A greedy choice within a token budget. Each item has forms from short to long, and the form with the
//! highest value per token is taken next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The price of one form: its tokens in all, and the value of each token that it needs beyond the shorter
/// form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PricedForm {
    pub(crate) tokens: u64,
    pub(crate) value_per_token: f64,
}

/// Something that the budget can be spent on.
#[derive(Debug, Clone)]
pub(crate) struct BudgetItem {
    /// The group (section) of the item. The first item of a group also pays for the heading.
    pub(crate) group: usize,
    /// The forms from short to long. The value per token falls from form to form.
    pub(crate) forms: Vec<PricedForm>,
}

/// The chosen forms in the order of the choice, as pairs of item index and form index.
#[derive(Debug, Default)]
pub(crate) struct Selection(Vec<(usize, usize)>);

impl Selection {
    /// Returns for each item the longest form that was chosen; `None` if no form was.
    pub(crate) fn chosen_forms(&self, offers: usize) -> Vec<Option<usize>> {
        let mut forms = vec![None; offers];
        self.0.iter().for_each(|(offer, form)| forms[*offer] = Some(*form));
        forms
    }

    /// Releases the newest choices until about `tokens` tokens are free. Returns whether there was anything
    /// to release.
    pub(crate) fn release(&mut self, offers: &[BudgetItem], tokens: u64) -> bool {
        let mut freed = 0;
        let before = self.0.len();
        while let Some((offer, form)) = self.0.pop_if(|_| freed < tokens) {
            let forms = &offers[offer].forms;
            freed += forms[form].tokens - form.checked_sub(1).map_or(0, |before| forms[before].tokens);
        }
        self.0.len() < before
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Releases the newest choices: one of `divisor`, rounded up.
    pub(crate) fn release_share(&mut self, divisor: usize) {
        self.0.truncate(self.0.len() - self.0.len().div_ceil(divisor));
    }

    /// Appends the choices of another selection.
    pub(crate) fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// Selects forms of the wanted items within the budget, and subtracts their tokens from it. `openings` has
/// the price of each group's heading; it becomes 0 once the heading is paid.
pub(crate) fn fill_budget(
    offers: &[BudgetItem],
    openings: &mut [u64],
    budget: &mut u64,
    wanted: impl Fn(usize) -> bool,
) -> Selection {
    let mut heap: BinaryHeap<NextForm> = BinaryHeap::new();
    let next = |offer: usize, form: usize| {
        offers[offer].forms.get(form).map(|of| NextForm { value_per_token: of.value_per_token, item: offer, form })
    };
    heap.extend((0..offers.len()).filter(|offer| wanted(*offer)).filter_map(|offer| next(offer, 0)));
    let mut bought = Selection::default();
    while let Some(NextForm { item: offer, form, .. }) = heap.pop() {
        let BudgetItem { group, forms } = &offers[offer];
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

/// A form that can be chosen next. Of equal values, the later item comes first.
struct NextForm {
    value_per_token: f64,
    item: usize,
    form: usize,
}

impl Ord for NextForm {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value_per_token.total_cmp(&other.value_per_token).then(self.item.cmp(&other.item))
    }
}
impl PartialOrd for NextForm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for NextForm {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for NextForm {}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(group: usize, forms: &[(u64, f64)]) -> BudgetItem {
        BudgetItem {
            group,
            forms: forms.iter().map(|(tokens, rate)| PricedForm { tokens: *tokens, value_per_token: *rate }).collect(),
        }
    }

    #[test]
    fn the_best_value_per_token_is_selected_first_and_released_last() {
        let offers = [item(0, &[(10, 5.0), (30, 1.0)]), item(1, &[(10, 4.0)]), item(1, &[(50, 2.0)])];
        let (mut budget, mut openings) = (46, vec![3, 3]);
        let mut bought = fill_budget(&offers, &mut openings, &mut budget, |_| true);
        assert_eq!((bought.chosen_forms(3), budget), (vec![Some(1), Some(0), None], 0));
        assert!(bought.release(&offers, 1));
        assert_eq!(bought.chosen_forms(3), [Some(0), Some(0), None]);
    }
}
