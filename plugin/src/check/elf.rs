//! The entry symbol's table, read from the file.
// Not useless where the fields have 32 bits.
#![allow(clippy::useless_conversion)]

use std::fs::File;
use std::path::Path;

use haft_api::boundary::abi::{ENTRY_SYMBOL, HEAD_SIZE, HaftPluginHead};
use object::NativeEndian;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader as _, Sym as _};
use object::read::{ReadCache, ReadRef};

use crate::refusal::{Refusal, RefusalKind};

#[cfg(target_pointer_width = "64")]
type Header = elf::FileHeader64<NativeEndian>;
#[cfg(target_pointer_width = "32")]
type Header = elf::FileHeader32<NativeEndian>;

/// Size of the part of the header that says for which machine a file is.
const IDENT: usize = 20;
/// The machine of this process, where it is known.
const MACHINE: Option<(&str, u16)> = if cfg!(target_arch = "x86_64") {
    Some(("x86_64", 62))
} else if cfg!(target_arch = "aarch64") {
    Some(("aarch64", 183))
} else if cfg!(target_arch = "x86") {
    Some(("x86", 3))
} else if cfg!(target_arch = "arm") {
    Some(("arm", 40))
} else if cfg!(target_arch = "riscv64") {
    Some(("riscv64", 243))
} else {
    None
};

/// What a file must be. Where the system's own format is another one, no file is
/// both that and something that can be judged before it is loaded.
const WANTED: &str = if cfg!(any(target_vendor = "apple", windows)) {
    "an ELF shared object; on this system no plug-in can be loaded yet, so link the extension in"
} else {
    "an ELF shared object"
};

/// Reads the head of a plug-in's table in the file.
pub(super) fn head(path: &Path, file: &File, size: u64) -> Result<HaftPluginHead, Refusal> {
    let data = ReadCache::new(file);
    check_machine(path, &data)?;
    let header = Header::parse(&data).map_err(|e| format_error(path, &e))?;
    check_whole(path, header, &data, size)?;
    read_head(path, header, &data)
}

fn format_error(path: &Path, error: &object::Error) -> Refusal {
    Refusal::new(RefusalKind::Format, path, WANTED, error.to_string())
}

/// What a file is that is no ELF file.
fn what_begins_with(bytes: &[u8]) -> String {
    match bytes {
        // 64 and 32 bits, in either byte order, and several in one file.
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..]
        | [0xfe, 0xed, 0xfa, 0xcf | 0xce, ..]
        | [0xca, 0xfe, 0xba, 0xbe, ..] => "a Mach-O file, of macOS".to_owned(),
        [b'M', b'Z', ..] => "a PE file, of Windows".to_owned(),
        _ => format!("a file that begins with {}", bytes[..4].escape_ascii()),
    }
}

fn check_machine<'a>(path: &Path, data: impl ReadRef<'a>) -> Result<(), Refusal> {
    let no_elf = |offered: &str| Refusal::new(RefusalKind::Format, path, WANTED, offered);
    let ident = data
        .read_bytes_at(0, IDENT as u64)
        .map_err(|()| no_elf("a file of a few bytes"))?;
    if !ident.starts_with(&[0x7f, b'E', b'L', b'F']) {
        return Err(no_elf(&what_begins_with(ident)));
    }
    let class = if cfg!(target_pointer_width = "64") {
        2
    } else {
        1
    };
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let machine = u16::from_ne_bytes([ident[18], ident[19]]);
    let fits = ident[4] == class
        && ident[5] == order
        && MACHINE.is_none_or(|(_, number)| number == machine);
    if fits {
        return Ok(());
    }
    let bits = |class| match class {
        1 => "32 bits",
        2 => "64 bits",
        _ => "unknown size",
    };
    let endian = |order| match order {
        1 => "little endian",
        2 => "big endian",
        _ => "unknown byte order",
    };
    let machine = if ident[5] == order {
        machine
    } else {
        machine.swap_bytes()
    };
    let wanted = match MACHINE {
        Some((name, number)) => format!("{name} (machine {number})"),
        None => std::env::consts::ARCH.to_owned(),
    };
    Err(Refusal::new(
        RefusalKind::Machine,
        path,
        format!("{wanted}, {}, {}", bits(class), endian(order)),
        format!(
            "machine {machine}, {}, {}",
            bits(ident[4]),
            endian(ident[5])
        ),
    ))
}

/// A file whose end is missing must not get to the system's loader: that maps
/// what isn't there, and the process dies at the first touch.
fn check_whole<'a>(
    path: &Path,
    header: &Header,
    data: impl ReadRef<'a>,
    size: u64,
) -> Result<(), Refusal> {
    let endian = NativeEndian;
    let format = |e: object::Error| format_error(path, &e);
    let truncated = |end: u64| {
        Refusal::new(
            RefusalKind::Truncated,
            path,
            format!("{end} bytes"),
            format!("{size} bytes"),
        )
    };
    let within = |start: u64, length: u64| {
        let end = start.saturating_add(length);
        if end <= size {
            Ok(())
        } else {
            Err(truncated(end))
        }
    };
    let (segments, sections) = (
        u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian)),
        u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian)),
    );
    within(header.e_phoff(endian).into(), segments)?;
    // It stands at the end of the file, so that it is the first to go.
    within(header.e_shoff(endian).into(), sections)?;
    if header.e_type(endian) != elf::ET_DYN {
        return Err(Refusal::new(
            RefusalKind::Format,
            path,
            "an ELF shared object",
            "an ELF file of another type",
        ));
    }
    for segment in header.program_headers(endian, data).map_err(format)? {
        let (offset, length) = segment.file_range(endian);
        within(offset, length)?;
    }
    Ok(())
}

fn read_head<'a, R: ReadRef<'a>>(
    path: &Path,
    header: &Header,
    data: R,
) -> Result<HaftPluginHead, Refusal> {
    let endian = NativeEndian;
    let format = |e: object::Error| format_error(path, &e);
    let sections = header.sections(endian, data).map_err(format)?;
    let symbols = sections
        .symbols(endian, data, elf::SHT_DYNSYM)
        .map_err(format)?;
    let symbol = symbols
        .iter()
        .find(|symbol| {
            let name = symbols.symbol_name(endian, symbol);
            name.is_ok_and(|name| name == ENTRY_SYMBOL.as_bytes()) && !symbol.is_undefined(endian)
        })
        .ok_or_else(|| {
            Refusal::new(
                RefusalKind::NoSymbol,
                path,
                format!("the symbol {ENTRY_SYMBOL}"),
                format!("{} other symbols", symbols.len().saturating_sub(1)),
            )
        })?;
    let not_data = |offered: &str| {
        let wanted = format!("{ENTRY_SYMBOL} as an initialised object");
        Refusal::new(RefusalKind::NotData, path, wanted, offered)
    };
    if symbol.st_type() != elf::STT_OBJECT {
        return Err(not_data(match symbol.st_type() {
            elf::STT_FUNC => "a function",
            elf::STT_TLS => "a thread's own object",
            _ => "a symbol of another type",
        }));
    }
    let (address, length): (u64, u64) = (
        symbol.st_value(endian).into(),
        symbol.st_size(endian).into(),
    );
    let too_small = |offered: u64| {
        let least = size_of::<haft_api::boundary::abi::HaftPlugin>();
        let wanted = format!("at least {least} bytes");
        Refusal::new(
            RefusalKind::TableSize,
            path,
            wanted,
            format!("{offered} bytes"),
        )
    };
    if length < HEAD_SIZE as u64 {
        return Err(too_small(length));
    }
    let bytes = header
        .program_headers(endian, data)
        .map_err(format)?
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .find_map(|segment| {
            let bytes = segment.data_range(endian, data, address, HEAD_SIZE as u64);
            bytes.ok().flatten()
        })
        .and_then(|bytes| bytes.first_chunk())
        .ok_or_else(|| not_data("an object that isn't in the file"))?;
    let head = HaftPluginHead::from_bytes(bytes);
    // Whether the size that it claims is enough is for the caller to see; that
    // it doesn't claim more than is there, for us.
    if u64::from(head.size) > length {
        return Err(too_small(length));
    }
    Ok(head)
}
