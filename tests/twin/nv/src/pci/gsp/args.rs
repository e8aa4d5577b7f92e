//! What the firmware is started with: a page of regions of memory, among them logs and the arguments of RM, which say where
//! the queues are.
//!
//! Source: OGKM, src/common/uproc/os/common/include/libos_init_args.h; kernel_gsp.c, kgspSetupLibosInitArgs_IMPL,
//! _setupLogBufferBaremetal, kgspPopulateGspRmInitArgs_IMPL; gsp_init_args.h of each branch.

use drivers_spec::nv::abi::Branch;
use twin::host::PAGE;
use twin::rule::{Proof, Rule};

use crate::pci::memory::{Host, long, word};

static LIBOS: Rule = Rule {
    name: "NV-LIBOS-ARGS",
    text: "a page of libos arguments lists LOGINIT first, LOGINTR, LOGRM and RMARGS, and perhaps LOGMNOC and LOGKRNL: contiguous \
           (kind 1) memory of the host (loc 1), in whole pages that are mapped for the card",
    source: "OGKM, kernel_gsp.c, kgspSetupLibosInitArgs_IMPL: LOGINIT must be first; libos_init_args.h; the logs beside those three: \
             570.144 only, and Linux's drivers leave them out",
    proof: Proof::Sourced,
};

static LOG: Rule = Rule {
    name: "NV-LIBOS-LOG",
    text: "behind the first word of a log, which is 0, are the addresses of its pages",
    source: "OGKM, kernel_gsp.c, _setupLogBufferBaremetal: Pass the PTE table for the log buffer in the log buffer, after the put \
             pointer",
    proof: Proof::Sourced,
};

static ARGUMENTS: Rule = Rule {
    name: "NV-GSP-ARGUMENTS",
    text: "GSP_ARGUMENTS_CACHED, in the layout of the firmware's branch, says where the queues are: a table of the pages of all of \
           their memory, which it begins with, and in it two offsets, of a page each, without overlap",
    source: "OGKM, gsp_init_args.h of 535.113.01, 550.163.01 and 570.144; message_queue_cpu.c, GspMsgQueuesInit",
    proof: Proof::Sourced,
};

/// A rule that was broken, and how; none where that has been said.
pub(super) type Failed = Option<(&'static Rule, String)>;

/// What it is started with.
pub(super) struct Arguments {
    pub(super) queues: Shared,
    /// Where its logs are.
    pub(super) logs: Vec<u64>,
}

/// Memory of queues.
pub(super) struct Shared {
    /// Its pages.
    pub(super) pages: Vec<u64>,
    /// Where the queue of commands begins, and that of what comes back.
    pub(super) command: u64,
    pub(super) status: u64,
}

/// Names of regions, as numbers.
fn name(text: &str) -> u64 {
    text.bytes().fold(0, |id, byte| id << 8 | u64::from(byte))
}

const LOGS: [&str; 5] = ["LOGINIT", "LOGINTR", "LOGRM", "LOGMNOC", "LOGKRNL"];

/// Bytes of an entry.
const ENTRY: usize = 32;

/// Reads the page at an address, and what it leads to.
pub(super) fn read(host: &Host, at: u64, branch: Branch) -> Result<Arguments, Failed> {
    let mut page = [0; PAGE as usize];
    if !at.is_multiple_of(PAGE) {
        return Err(Some((&LIBOS, format!("the page is at {at:#x}"))));
    }
    if !host.read(at, &mut page, "GSP, its libos arguments") {
        return Err(None);
    }
    let entries = page.chunks(ENTRY).take_while(|entry| long(entry, 0) != 0);
    let mut arguments = None;
    let mut seen = Vec::new();
    let mut logs = Vec::new();
    for entry in entries {
        let (id, at, bytes) = (long(entry, 0), long(entry, 8), long(entry, 16));
        let is_log = LOGS.iter().find(|log| name(log) == id);
        let is_known = is_log.is_some() || id == name("RMARGS");
        let whole = at.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0;
        if !is_known || entry[24..26] != [1, 1] || !whole {
            let what = format!(
                "{id:#x} at {at:#x}, {bytes:#x} bytes, {:x?}",
                &entry[24..26]
            );
            return Err(Some((&LIBOS, what)));
        }
        if !host.is_mapped(at, bytes, "GSP, a region of memory") {
            return Err(None);
        }
        match is_log {
            Some(log) => {
                check_log(host, log, at, bytes)?;
                logs.push(at);
            }
            None => arguments = Some(at),
        }
        seen.push(id);
    }
    let lacks = LOGS[..3].iter().find(|log| !seen.contains(&name(log)));
    match (lacks, arguments) {
        (None, Some(arguments)) if seen[0] == name(LOGS[0]) => Ok(Arguments {
            queues: shared(host, arguments, branch)?,
            logs,
        }),
        _ => Err(Some((&LIBOS, format!("regions {seen:#x?}")))),
    }
}

fn check_log(host: &Host, log: &str, at: u64, bytes: u64) -> Result<(), Failed> {
    let pages = bytes / PAGE;
    let mut table = vec![0; 8 + 8 * pages as usize];
    if !host.read(at, &mut table, "GSP, a log") {
        return Err(None);
    }
    let wanted = |i: u64| if i == 0 { 0 } else { at + (i - 1) * PAGE };
    let wrong = (0..=pages).find(|i| long(&table, 8 * *i as usize) != wanted(*i));
    wrong.map_or(Ok(()), |i| {
        let found = long(&table, 8 * i as usize);
        let what = format!("word {i} of {log} at {at:#x} is {found:#x}");
        Err(Some((&LOG, what)))
    })
}

/// `GSP_ARGUMENTS_CACHED`. What firmware does with gpuInstance, and with bDmemStack of 570, is not published: OGKM sets the one to
/// a number of its own, and a setting of the user chooses the other (kgspPopulateGspRmInitArgs_IMPL, RmGspStackPlacement).
fn shared(host: &Host, at: u64, branch: Branch) -> Result<Shared, Failed> {
    let mut bytes = [0; 0x50];
    if !host.read(at, &mut bytes, "GSP, the arguments of RM") {
        return Err(None);
    }
    let root = long(&bytes, 0);
    let count = u64::from(word(&bytes, 8));
    let (command, status) = (long(&bytes, 0x10), long(&bytes, 0x18));
    // Two more offsets until 550, which nothing uses.
    let resumes = match branch {
        Branch::R535 | Branch::R550 => bytes[0x38],
        _ => bytes[0x28],
    };
    let wrong = |what: String| Some((&ARGUMENTS as &'static Rule, what));
    let table = (8 * count).next_multiple_of(PAGE);
    let end = count * PAGE;
    let fits = command >= table && command < status && status < end;
    let whole = command.is_multiple_of(PAGE) && status.is_multiple_of(PAGE);
    if !root.is_multiple_of(PAGE) || count > 1 << 16 || !fits || !whole || resumes != 0 {
        return Err(wrong(format!(
            "{count} pages at {root:#x}, queues at {command:#x} and {status:#x}, bInPMTransition {resumes}"
        )));
    }
    let pages = read_table(host, root, count)?;
    Ok(Shared {
        pages,
        command,
        status,
    })
}

/// The table of pages lies in the first of them.
fn read_table(host: &Host, root: u64, count: u64) -> Result<Vec<u64>, Failed> {
    let mut pages: Vec<u64> = vec![root];
    let mut index = 0;
    while index < count {
        let inside = 8 * index % PAGE;
        let Some(page) = pages.get((8 * index / PAGE) as usize).copied() else {
            break;
        };
        let mut entry = [0; 8];
        if !host.read(page + inside, &mut entry, "GSP, the table of its queues") {
            return Err(None);
        }
        let entry = u64::from_le_bytes(entry);
        let is_own = index > 0 || entry == root;
        if !is_own || entry == 0 || !entry.is_multiple_of(PAGE) {
            let what = format!("entry {index} of the table of pages is {entry:#x}");
            return Err(Some((&ARGUMENTS, what)));
        }
        match index {
            0 => {}
            _ => pages.push(entry),
        }
        index += 1;
    }
    match pages
        .iter()
        .all(|page| host.is_mapped(*page, PAGE, "GSP, its queues"))
    {
        true => Ok(pages),
        false => Err(None),
    }
}
