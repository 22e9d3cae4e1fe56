//! Arbitrary bytes as Accept-Encoding: the chosen coding exists, depends neither on how members are
//! spread over lines nor on white space, and stays the best when others are removed. The first byte
//! of the input decides which codings exist.

#![no_main]

use libfuzzer_sys::fuzz_target;
use site::negotiate::{Coding, CodingSet, choose};

fuzz_target!(|input: &[u8]| {
    let Some((&chooser, field)) = input.split_first() else { return };
    let is_there = |coding: &Coding| chooser >> *coding as u8 & 1 != 0;
    let available =
        Coding::ALL.into_iter().filter(is_there).fold(CodingSet::EMPTY, CodingSet::with);
    let chosen = choose(std::iter::once(field), available);

    let members = || field.split(|&byte| byte == b',');
    assert_eq!(choose(members(), available), chosen, "a line each");
    let spaced: Vec<_> = members().map(|member| [b" \t", member, b" "].concat()).collect();
    assert_eq!(choose(std::iter::once(&spaced.join(&b',')[..]), available), chosen, "spaced");

    for coding in available.iter() {
        let alone = choose(std::iter::once(field), CodingSet::EMPTY.with(coding));
        match chosen {
            None => assert_eq!(alone, None, "acceptable after all"),
            Some(best) => {
                let pair = CodingSet::EMPTY.with(best).with(coding);
                assert_eq!(choose(std::iter::once(field), pair), chosen, "better after all");
            }
        }
    }
    assert!(chosen.is_none_or(|coding| available.contains(coding)));
});
