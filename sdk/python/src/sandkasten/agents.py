"""Ready-made tools for agents: exec, read, write, edit and list in a session.

```python
tools = SandboxTools(session)
response = await model.messages.create(tools=tools.anthropic(), ...)
result = await tools.call(block.name, block.input)
```

The daemon's own tools, with which a model opens sandboxes itself, are `ScopeTools`:

```python
tools = ScopeTools(client, "workflow:run-1")
response = await model.messages.create(tools=await tools.anthropic(), ...)
result = await tools.call(block.name, block.input)
```
"""

from ._async.scope_tools import ScopeTools
from ._async.tools import SandboxTools
from ._cut import cut
from ._sync.scope_tools import SyncScopeTools
from ._sync.tools import SyncSandboxTools
from ._tools import TOOLS, Tool, ToolImage, ToolResult

__all__ = [
    "TOOLS",
    "SandboxTools",
    "ScopeTools",
    "SyncSandboxTools",
    "SyncScopeTools",
    "Tool",
    "ToolImage",
    "ToolResult",
    "cut",
]
