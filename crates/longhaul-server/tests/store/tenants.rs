tests! { Both: [] }
