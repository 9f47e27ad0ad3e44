//! TypeScript without its types.

/// The JavaScript that a TypeScript file is without its types. Enums become
/// code; lines may move.
///
/// # Errors
/// What isn't TypeScript, with its line.
#[cfg(feature = "typescript")]
pub(crate) fn strip(text: &str) -> Result<String, String> {
    use oxc_allocator::Allocator;
    use oxc_codegen::Codegen;
    use oxc_parser::Parser;
    use oxc_semantic::SemanticBuilder;
    use oxc_span::SourceType;
    use oxc_transformer::{TransformOptions, Transformer};

    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts()).parse();
    if let Some(error) = parsed.errors.first() {
        return Err(said(error, text));
    }
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new().build(&program).semantic;
    let options = TransformOptions::default();
    let transformer = Transformer::new(&allocator, std::path::Path::new("skill.ts"), &options);
    let done = transformer.build_with_scoping(semantic.into_scoping(), &mut program);
    match done.errors.first() {
        Some(error) => Err(said(error, text)),
        None => Ok(Codegen::new().build(&program).code),
    }
}

#[cfg(not(feature = "typescript"))]
pub(crate) fn strip(_: &str) -> Result<String, String> {
    Err("this program was built without TypeScript (feature `typescript`)".to_owned())
}
