"""Imports single files of a package whose dependencies are not installed: all but the named modules are stand-ins."""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types


REAL = set()


class Thing:
    """Any class of a module that is not there: it takes everything and keeps what it is named."""

    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)

    def __class_getitem__(cls, item):
        return cls


class Missing(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in REAL:
            return importlib.import_module(f"{self.__name__}.{name}")
        made = type(name, (Thing,), {})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, tops, real, given):
        self.tops, self.real, self.given = tops, real, given

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.tops and not any(name == r or r.startswith(name + ".") for r in self.real):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Missing(spec.name)

    def exec_module(self, module):
        for path, value in self.given.items():
            name, _, attribute = path.rpartition(".")
            if name == module.__name__:
                setattr(module, attribute, value)


def install(folder, tops, real, given=()):
    """`tops`: packages to stand in for; `real`: modules of them that are loaded from `folder`; `given`: path -> value."""
    REAL.update(real)
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, Finder(set(tops), set(real), dict(given)))
    for name in real:  # the packages above a real module are empty: their own __init__ would load everything
        parts = name.split(".")
        for end in range(1, len(parts)):
            package = ".".join(parts[:end])
            if package not in sys.modules and package not in real:
                made = Missing(package)
                made.__path__ = [str(folder / "/".join(parts[:end]))]
                sys.modules[package] = made
