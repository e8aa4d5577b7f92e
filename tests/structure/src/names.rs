//! The public names of a crate, and the words of other files.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// A public item: what is used by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Public {
    /// Its kind and name, methods with their type: `fn View::len`.
    pub what: String,
    /// The name that a user writes.
    pub name: String,
}

/// The public items of a file: types, traits, functions, constants, macros, methods and variants.
///
/// # Panics
/// As [`crate::parse`].
pub fn public(file: &Path) -> Vec<Public> {
    let mut found = Vec::new();
    items(&crate::parse(file).items, &mut found);
    found
}

fn items(all: &[syn::Item], found: &mut Vec<Public>) {
    let is_public = |vis: &syn::Visibility| matches!(vis, syn::Visibility::Public(_));
    let mut add = |what: String, name: &syn::Ident| {
        let name = name.to_string();
        found.push(Public { what, name });
    };
    for item in all {
        match item {
            syn::Item::Struct(i) if is_public(&i.vis) => {
                add(format!("struct {}", i.ident), &i.ident)
            }
            syn::Item::Enum(i) if is_public(&i.vis) => {
                add(format!("enum {}", i.ident), &i.ident);
                for variant in &i.variants {
                    add(format!("{}::{}", i.ident, variant.ident), &variant.ident);
                }
            }
            syn::Item::Trait(i) if is_public(&i.vis) => {
                add(format!("trait {}", i.ident), &i.ident);
                for item in &i.items {
                    if let syn::TraitItem::Fn(f) = item {
                        let name = &f.sig.ident;
                        add(format!("fn {}::{name}", i.ident), name);
                    }
                }
            }
            syn::Item::Fn(i) if is_public(&i.vis) => {
                add(format!("fn {}", i.sig.ident), &i.sig.ident);
            }
            syn::Item::Const(i) if is_public(&i.vis) => add(format!("const {}", i.ident), &i.ident),
            syn::Item::Type(i) if is_public(&i.vis) => add(format!("type {}", i.ident), &i.ident),
            syn::Item::Macro(i) => {
                let exported = i.attrs.iter().any(|a| a.path().is_ident("macro_export"));
                if let (Some(name), true) = (&i.ident, exported) {
                    add(format!("macro {name}"), name);
                }
            }
            syn::Item::Impl(i) if i.trait_.is_none() => {
                let of = match &*i.self_ty {
                    syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
                    _ => None,
                };
                let of = of.unwrap_or_default();
                for item in &i.items {
                    match item {
                        syn::ImplItem::Fn(f) if is_public(&f.vis) => {
                            add(format!("fn {of}::{}", f.sig.ident), &f.sig.ident);
                        }
                        syn::ImplItem::Const(c) if is_public(&c.vis) => {
                            add(format!("const {of}::{}", c.ident), &c.ident);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// Every identifier of a file with how often it stands there; comments, strings and unit tests left
/// out.
///
/// # Panics
/// As [`crate::parse`].
pub fn words(file: &Path) -> BTreeMap<String, usize> {
    let text =
        std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    // Unit tests stand last in a file, and do not make an item needed.
    let text = match text.find("#[cfg(test)]\nmod ") {
        Some(at) => &text[..at],
        None => &text[..],
    };
    let stream: TokenStream = text
        .parse()
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut found = BTreeMap::new();
    gather(stream, &mut found);
    found
}

fn gather(stream: TokenStream, found: &mut BTreeMap<String, usize>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(ident) => {
                *found.entry(ident.to_string()).or_default() += 1;
            }
            TokenTree::Group(group) => gather(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
