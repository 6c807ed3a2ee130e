"""Ready-made tools for agents: exec, read, write, edit and list in a session.

```python
tools = SandboxTools(session)
response = await model.messages.create(tools=tools.anthropic(), ...)
result = await tools.call(block.name, block.input)
```
"""

from ._async.tools import SandboxTools
from ._cut import cut
from ._sync.tools import SyncSandboxTools
from ._tools import TOOLS, Tool, ToolResult

__all__ = ["TOOLS", "SandboxTools", "SyncSandboxTools", "Tool", "ToolResult", "cut"]
