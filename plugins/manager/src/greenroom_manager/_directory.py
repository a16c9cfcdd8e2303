"""The one object that front ends see: `AgentDirectory`, put together from the parts of this package.

Where each part plugs in. Every part is a class in its own module, made once by `Directory.__init__` with
`context: Context` (below) as its only argument, and keeps no reference to the facade:

| method of AgentDirectory | part | its own method |
|---|---|---|
| list, find, subscribe, update, mark_read, mark_unread, respond | here, `_records`, `_feed`, `attention` | |
| create, open, close, archive, unarchive, detach, delete, reload | `ways.Ways(context)` | the same names |
| importable, import_native, rewind | `history.History(context)` | the same names |

`Context` gives a part: `host`, `scope` (the plugin's; agents are made with `owner=context.owner`), `book` (RecordBook:
`get`, `read`, `find`, `list`, `insert`, `change`, `stage`, `remove`, `flush`, `observe`), `snapshot(agent_id)`, and
`known(agent)` (the record of a live agent). The record of an agent is made when it is announced (`_watch`), whoever
created it: a way in that wants more in it calls `book.change(agent.id, ...)` once `host.agents.create` has returned.
Records of live agents are kept by `_watch`: state, settings, runtime, usage, native handle, last error, completion.
"""

from __future__ import annotations
