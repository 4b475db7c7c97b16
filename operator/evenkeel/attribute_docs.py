"""Reads the docstrings below the fields of a class, or below the members of an enum."""

import ast
import inspect
import itertools
import textwrap


def read_attribute_docs(kind: type) -> dict[str, str]:
    """Map the names of attributes to their docstrings, without undocumented attributes."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for attribute, below in itertools.pairwise(tree.body):
        match attribute, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(ast.Constant(str(words))),
            ):
                found[name] = inspect.cleandoc(words)
            case _:
                pass
    return found
