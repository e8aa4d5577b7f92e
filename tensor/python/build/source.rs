//! The public methods of `tensor::Tensor`: names, arguments, documentation, as the source has them.

use std::path::{Path, PathBuf};

use proc_macro2::TokenTree;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, FnArg, GenericArgument, ImplItem, Item, Lit, Meta, Pat, PathArguments};
use syn::{ReturnType, Token, Type, TypeParamBound, Visibility};

/// A public method of tensors.
pub struct Method {
    /// Its name in Rust.
    pub name: String,
    /// The lines of its documentation.
    pub doc: Vec<String>,
    /// Arguments behind the tensor: names and types.
    pub args: Vec<(String, String)>,
    /// What it returns.
    pub returns: String,
    /// Whether it is called on a tensor.
    pub on_tensor: bool,
}

/// Macros of the engine whose rows are methods, with the arguments behind the tensor.
const MACROS: [(&str, Option<&str>); 7] = [
    ("binary", Some("impl Into<Operand>")),
    ("comparison", Some("impl Into<Operand>")),
    ("unary", None),
    ("float_unary", None),
    ("rounding", None),
    ("composed", None),
    ("activation", None),
];

/// All of them, by file and line.
///
/// # Errors
/// A file that cannot be read, or is no Rust.
pub fn methods(top: &Path) -> Result<Vec<Method>, String> {
    let mut found = Vec::new();
    for path in files(top)? {
        let text = read(&path)?;
        let has_macro = |(name, _): &(&str, _)| text.contains(&format!("{name}! {{"));
        if !text.contains("impl Tensor {") && !MACROS.iter().any(has_macro) {
            continue;
        }
        let file = syn::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        for item in &file.items {
            of_item(item, &mut found).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The Rust files below a folder, sorted.
fn files(top: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut open = vec![top.to_path_buf()];
    while let Some(folder) = open.pop() {
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn of_item(item: &Item, found: &mut Vec<Method>) -> syn::Result<()> {
    match item {
        Item::Impl(block) if block.trait_.is_none() && text(&block.self_ty) == "Tensor" => {
            for item in &block.items {
                if let ImplItem::Fn(function) = item
                    && matches!(function.vis, Visibility::Public(_))
                {
                    found.push(of_function(function));
                }
            }
        }
        Item::Macro(item) => {
            let name = item.mac.path.get_ident().map(ToString::to_string);
            let known = MACROS
                .iter()
                .find(|(known, _)| Some(*known) == name.as_deref());
            if let Some((_, other)) = known {
                let rows = |input: ParseStream<'_>| rows(input, *other);
                found.extend(rows.parse2(item.mac.tokens.clone())?);
            }
        }
        _ => {}
    }
    Ok(())
}

fn of_function(function: &syn::ImplItemFn) -> Method {
    let mut args = Vec::new();
    let mut on_tensor = false;
    for input in &function.sig.inputs {
        match input {
            FnArg::Receiver(_) => on_tensor = true,
            FnArg::Typed(typed) => {
                let name = match &*typed.pat {
                    Pat::Ident(name) => name.ident.to_string(),
                    _ => "_".into(),
                };
                args.push((name, text(&typed.ty)));
            }
        }
    }
    Method {
        name: function.sig.ident.to_string(),
        doc: doc(&function.attrs),
        args,
        returns: match &function.sig.output {
            ReturnType::Default => "()".into(),
            ReturnType::Type(_, ty) => text(ty),
        },
        on_tensor,
    }
}

/// The rows of a macro: documentation, a name, perhaps names of numbers in parentheses, and what it is made of, up to
/// the semicolon.
fn rows(input: ParseStream<'_>, other: Option<&str>) -> syn::Result<Vec<Method>> {
    let mut found = Vec::new();
    while !input.is_empty() {
        let attrs = input.call(Attribute::parse_outer)?;
        let name: syn::Ident = input.parse()?;
        let mut args: Vec<(String, String)> = Vec::new();
        args.extend(other.map(|ty| ("other".to_owned(), ty.to_owned())));
        if input.peek(syn::token::Paren) {
            let inside;
            syn::parenthesized!(inside in input);
            let names = Punctuated::<syn::Ident, Token![,]>::parse_terminated(&inside)?;
            args.extend(
                names
                    .iter()
                    .map(|name| (name.to_string(), "f64".to_owned())),
            );
        }
        while !input.is_empty() {
            if matches!(input.parse::<TokenTree>()?, TokenTree::Punct(mark) if mark.as_char() == ';')
            {
                break;
            }
        }
        found.push(Method {
            name: name.to_string(),
            doc: doc(&attrs),
            args,
            returns: "Result<Tensor>".into(),
            on_tensor: true,
        });
    }
    Ok(found)
}

fn doc(attrs: &[Attribute]) -> Vec<String> {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(line) => Some(line.value().trim_end().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned())
        .collect()
}

/// A type as text.
fn text(ty: &Type) -> String {
    match ty {
        Type::Reference(to) => format!("&{}", text(&to.elem)),
        Type::Slice(of) => format!("[{}]", text(&of.elem)),
        Type::Tuple(of) => {
            let parts: Vec<String> = of.elems.iter().map(text).collect();
            format!("({})", parts.join(", "))
        }
        Type::Path(of) => path(&of.path),
        Type::ImplTrait(of) => {
            let bounds = of.bounds.iter().filter_map(|bound| match bound {
                TypeParamBound::Trait(bound) => Some(path(&bound.path)),
                _ => None,
            });
            format!("impl {}", bounds.collect::<Vec<_>>().join(" + "))
        }
        Type::TraitObject(_) => "dyn".into(),
        _ => "?".into(),
    }
}

fn path(path: &syn::Path) -> String {
    let parts = path.segments.iter().map(|part| {
        let name = part.ident.to_string();
        let PathArguments::AngleBracketed(inside) = &part.arguments else {
            return name;
        };
        let inside = inside.args.iter().map(|argument| match argument {
            GenericArgument::Type(ty) => text(ty),
            _ => "_".into(),
        });
        format!("{name}<{}>", inside.collect::<Vec<_>>().join(", "))
    });
    parts.collect::<Vec<_>>().join("::")
}
