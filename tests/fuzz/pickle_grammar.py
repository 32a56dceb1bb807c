"""Pickles by the grammar of instructions: sound parts of checkpoints, or slightly wrong ones."""

import math
import pickle
import struct

import pickle_assembly as assembly
from omegaconf import OmegaConf
from pickle_assembly import call, named, new, plain, text, whole

NAMES = (
    "", "a", "args", "cfg", "model", "_metadata", "_content", "_parent", "_val", "__class__",
    "__dict__", "__setstate__", "${oc.env:HOME}", "\x1b]0;x\x07", "a\nb", "\ud800", "é" * 40,
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 4, 255, 256, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, 2**63, -(2**70))
FLOATS = (0.0, -0.5, float("inf"), float("nan"), 1e308)
STORAGES = {
    "Float": 4,
    "Half": 2,
    "BFloat16": 2,
    "Double": 8,
    "Long": 8,
    "Int": 4,
    "Short": 2,
    "Char": 1,
    "Byte": 1,
    "Bool": 1,
}  # bytes of an element
LISTED = (
    ("collections", "OrderedDict"), ("collections", "defaultdict"), ("argparse", "Namespace"),
    ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter"),
    ("torch", "Size"), ("torch", "device"), ("torch", "float16"), ("torch", "FloatStorage"),
    ("_codecs", "encode"), ("__builtin__", "bytes"), ("__builtin__", "dict"), ("typing", "Any"),
    ("numpy", "dtype"), ("numpy", "ndarray"), ("numpy.core.multiarray", "_reconstruct"),
    ("fairseq.meters", "AverageMeter"), ("omegaconf.dictconfig", "DictConfig"),
    ("omegaconf.listconfig", "ListConfig"), ("omegaconf.nodes", "AnyNode"),
    ("omegaconf.base", "Metadata"), ("omegaconf.base", "ContainerMetadata"),
)  # fmt: skip
FOREIGN = (
    ("posix", "system"), ("builtins", "eval"), ("__builtin__", "eval"), ("this", "s"), ("", ""),
    ("torch", "load"), ("numpy", "memmap"), ("omegaconf.omegaconf", "OmegaConf.create"),
    ("argparse", "_os.system"), ("collections", "OrderedDict.__reduce__"), ("a b", "\x1b[2J"),
)  # fmt: skip
SHAPES = ((4,), (1,), (), (2, 2), (0, 5), (1,) * 64, (0,))
INSTRUCTIONS = [getattr(pickle, name) for name in dir(pickle) if name.isupper()]
INSTRUCTIONS = [code for code in INSTRUCTIONS if type(code) is bytes and len(code) == 1]


class Grammar:
    """Makes the parts of one checkpoint.

    Attributes:
        storages: (elements, bytes) of each storage that the parts refer to, by key.

    Args:
        random: where the choices come from.
        legacy: for the layout before torch 1.6.
        wrong: how likely it is that a part is replaced by another or damaged.
    """

    def __init__(self, random, legacy, wrong):
        self.storages = {}
        self._random = random
        self._more = pickle.NONE if legacy else b""
        self._wrong = wrong
        self._memo = 0

    def part(self, depth):
        """An object, as instructions that leave it on the stack."""
        random = self._random
        if random.random() < self._wrong:
            return self._odd(depth)
        kinds = [self._leaf]
        if depth > 0:
            kinds += [self._container, self._container, self._object, self._tensor, self._doubled]
        return random.choice(kinds)(depth - 1)

    def state(self, depth):
        """A checkpoint: its parts under the names that fairseq gives them, or some of them."""
        random = self._random
        parts = {
            "args": assembly.build(new(named("argparse", "Namespace")), self._fields(depth)),
            "cfg": pickle.NONE,
            "model": assembly.dict_of(**{f"w{i}": self._tensor(0) for i in range(3)}),
            **{name: self.part(depth) for name in ("extra_state", "last_optimizer_state", "\x1bx")},
        }
        for name in list(parts):
            if random.random() < self._wrong:
                parts[name] = self.part(depth)
            if random.random() < self._wrong:
                del parts[name]
        return assembly.dict_of(**parts)

    def _one_of(self, sound, odd=()):
        """One that a checkpoint could have, or one that it could not."""
        return self._random.choice(odd if odd and self._random.random() < self._wrong else sound)

    def _fields(self, depth):
        count = self._random.randint(0, 4)
        names = [self._one_of(("a", "b_1", "arch", "data"), NAMES) for _ in range(count)]
        return assembly.dict_of(**{name: self.part(depth) for name in names})

    def _odd(self, depth):
        """What does not belong here."""
        random = self._random
        part = self.part(depth - 1) if depth > 0 else self._leaf(0)
        if random.random() < 0.5:
            return random.choice(
                (named(*random.choice(LISTED + FOREIGN)), self.part(depth - 1) * 2)
            )
        at = random.randrange(len(part) + 1)
        return random.choice((
            random.choice(INSTRUCTIONS),
            part[:at] + random.choice(INSTRUCTIONS) + part[at:],
            part[:at] + part[at + random.randint(1, 4) :],
            part[:at] + struct.pack("<I", random.choice((0, 255, 2**31, 2**32 - 1))) + part[at:],
            call(named(*random.choice(LISTED)), part),
            new(named(*random.choice(LISTED))) + part + pickle.BUILD,
            part + pickle.BINPERSID,
            pickle.BINGET + bytes([random.randrange(256)]),
            b"",
        ))  # fmt: skip

    def _leaf(self, _):
        random = self._random
        number = random.choice(NUMBERS)
        small = struct.pack("<i", number) if -(2**31) <= number < 2**31 else bytes(4)
        return random.choice((
            pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, whole(number), pickle.BININT + small,
            pickle.BINFLOAT + struct.pack(">d", random.choice(FLOATS)),
            text(random.choice(NAMES)), assembly.bytes_of(b"ab"), pickle.EMPTY_TUPLE,
        ))  # fmt: skip

    def _container(self, depth):
        random = self._random
        nested = random.choice((0, 0, 0, 1, 40, 3000))
        if nested:
            return random.choice((
                self._leaf(0) + pickle.TUPLE1 * nested,
                pickle.EMPTY_LIST * nested + pickle.EMPTY_LIST + pickle.APPEND * nested,
                self._itself(),
            ))  # fmt: skip
        items = [self.part(depth) for _ in range(random.choice((0, 1, 2, 3)))]
        keys = [self._one_of((text("a"), text("\x1bé"), whole(3)), (self._leaf(0),)) for _ in items]
        body = pickle.MARK + b"".join(items)
        pairs = pickle.MARK + b"".join(key + item for key, item in zip(keys, items))
        return random.choice((
            body + pickle.TUPLE,
            pickle.EMPTY_LIST + body + pickle.APPENDS,
            pickle.EMPTY_DICT + pairs + pickle.SETITEMS,
            assembly.ORDERED + pairs + pickle.SETITEMS,
        ))  # fmt: skip

    def _doubled(self, depth):
        """2 to the nth of one object in n steps."""
        random = self._random
        part, pair = self.part(depth), random.choice((
            lambda again: again + pickle.TUPLE2,
            lambda again: pickle.TUPLE1 + again + pickle.TUPLE2,
            lambda again: pickle.EMPTY_LIST + pickle.MARK + again * 2 + pickle.APPENDS
            + pickle.TUPLE2,
        ))  # fmt: skip
        for _ in range(random.choice((1, 3, 8))):  # torch hashes a key of 2**40 parts for ever
            part += self._put()
            part += pair(self._got())
        return part

    def _itself(self):
        """A list or Namespace in itself."""
        if self._random.random() < 0.5:
            return pickle.EMPTY_LIST + self._put() + self._got() + pickle.APPEND
        made = new(named("argparse", "Namespace")) + self._put()
        got = self._got()
        return made + pickle.EMPTY_DICT + text("a") + got + pickle.SETITEM + pickle.BUILD

    def _put(self):
        self._memo += 1
        return pickle.LONG_BINPUT + struct.pack("<I", self._memo)

    def _got(self):
        return pickle.LONG_BINGET + struct.pack("<I", self._memo)

    def _tensor(self, _):
        """A tensor of any shape and stride, most of which its storage holds; or an array."""
        random = self._random
        if random.random() < 0.2:
            shape = self._one_of(((1,), (1, 1)), ((), (0,), (2,), (2**40, 0), (2**62, 4)))
            name = self._one_of(("i8", "f8", "u8"), ("f4", "b1", "O8", "V8", "S8", "U2", "f16"))
            return assembly.array(of=assembly.dtype(name), shape=shape)
        kind, count = random.choice(sorted(STORAGES)), random.choice((0, 1, 4, 4, 4, 12))
        key = self._one_of((str(len(self.storages)),), ("0", "../a", ""))
        content = bytes(random.randrange(256) for _ in range(count * STORAGES[kind]))
        self.storages.setdefault(key, (count, content))
        where = assembly.storage(f"{kind}Storage", key, count, self._more)
        shapes = [shape for shape in SHAPES if math.prod(shape) <= count]
        size = self._one_of(shapes, ((2**40,), (-1,), (2, 2**62), (1,) * 65, (5,)))
        steps = self._one_of(((0, 1),), ((0, 1, 2, 2**40), (-1, 1)))
        stride = tuple(random.choice(steps) for _ in size)
        if math.prod(size) > 1 and steps == (0, 1):
            stride = (0,) * (len(size) - 1) + (1,)
        made = assembly.tensor(where, self._one_of((0,), (1, count, 2**40, -1)), size, stride)
        if random.random() < 0.2 and "F" in kind:
            parameter = named("torch._utils", "_rebuild_parameter")
            return call(parameter, made, pickle.NEWTRUE, assembly.ORDERED)
        return made

    def _object(self, depth):
        """An instance of a class of the table, with fields."""
        random = self._random
        kind = random.choice(("config", "Namespace", "AverageMeter", "Metadata", "other"))
        if kind == "config":
            return self._config(depth)
        if kind == "other":
            return random.choice((
                assembly.build(assembly.ORDERED, assembly.dict_of(_metadata=self._leaf(0))),
                call(named("torch", "Size"), plain((1, 2))),
                call(named("torch", "device"), text("cuda"), whole(self._one_of((0, 1), NUMBERS))),
                call(named("collections", "defaultdict"), named("__builtin__", "dict")),
            ))  # fmt: skip
        module = next(module for module, name in LISTED if name == kind)
        return assembly.build(new(named(module, kind)), self._fields(depth))

    def _config(self, depth):
        """A configuration as omegaconf writes it, or one of other content."""
        config = OmegaConf.create({"a": [1, "b"], "c": {"d": None}})
        if self._random.random() > self._wrong:
            return plain(config)
        node = self._random.choice((config, config.a, config._get_node("c")))
        content = self._one_of((pickle.NONE, text("${oc.env:HOME}")), (self.part(depth),))
        fields = {"_metadata": plain(node._metadata), "_parent": pickle.NONE, "_content": content}
        made = new(named(type(node).__module__, type(node).__name__))
        return assembly.build(made, assembly.dict_of(**fields))
