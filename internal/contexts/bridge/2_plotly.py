PLOTLY = "application/vnd.plotly.v1+json"
CHART_AXES, CHART_SERIES, CHART_POINTS, CHART_TEXT = 16, 50, 1000, 500
ARRAY_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d"}


def plotly_chart(figure):
    """A figure of plotly as numbers: what describe.py makes of one of matplotlib. Plotly shows a figure by its JSON, past
    IPython's formatters, so that it is read here. None is what cannot be read."""
    try:
        layout, found = figure.get("layout") or {}, {}
        for trace in (figure.get("data") or [])[:CHART_SERIES]:
            place = (str(trace.get("xaxis", "x")), str(trace.get("yaxis", "y")))
            if place in found or len(found) < CHART_AXES:
                found.setdefault(place, []).append(plotly_series(trace))
        axes = [plotly_axes(layout, *place, of) for place, of in found.items()]
        return {"library": "plotly", "type": one_kind(a["type"] for a in axes), "title": plotly_title(layout), "axes": axes}
    except Exception:  # code can show anything as a figure
        return None


def one_kind(kinds):
    kinds = set(kinds)
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "empty"


def plotly_title(of):
    title = of.get("title") or ""
    return str(title.get("text") or "" if isinstance(title, dict) else title)[:CHART_TEXT]


def plotly_axes(layout, x, y, series):
    described = {"type": one_kind(s["type"] for s in series), "title": "", "series": series}
    for name, key in (("x", "xaxis" + x[1:]), ("y", "yaxis" + y[1:])):
        axis = layout.get(key) or {}
        described[name + "_label"], described[name + "_scale"] = plotly_title(axis), str(axis.get("type") or "linear")
    if x == "x" and y == "y":
        described["title"] = plotly_title(layout)
    return described


def plotly_series(trace):
    kind = str(trace.get("type") or "scatter")
    label = trace.get("name")
    series = {"type": kind, "label": None if label is None else str(label)[:CHART_TEXT]}
    x, y = plotly_values(trace.get("x")), plotly_values(trace.get("y"))
    if kind in ("scatter", "scattergl"):
        mode = str(trace.get("mode") or ("lines" if len(y) > 20 else "lines+markers"))
        series["type"] = "line" if "lines" in mode else "scatter"
    elif kind == "bar" and trace.get("orientation") == "h":
        series["type"], x, y = "horizontal_bar", y, x
    elif kind == "pie":
        x, y = plotly_values(trace.get("labels")), plotly_values(trace.get("values"))
        total = sum(v for v in y if isinstance(v, (int, float))) or 1
        y = [v / total if isinstance(v, (int, float)) else None for v in y]
    elif kind in ("heatmap", "image"):
        z = trace.get("z")
        shape = [int(n) for n in str(z["shape"]).split(",")] if isinstance(z, dict) else [len(z), len(z[0])]
        return {"type": "image", "label": series["label"], "shape": shape[:2]}
    if not x and y:
        x = list(range(len(y)))
    return {**series, "points": max(len(x), len(y)), "x": x[:CHART_POINTS], "y": y[:CHART_POINTS]}


def plotly_values(values):
    """The values of a trace, which are a list or, in base64, an array."""
    if isinstance(values, dict):
        import array

        content = array.array(ARRAY_CODES[values["dtype"]])
        content.frombytes(base64.b64decode(values["bdata"]))
        values = content.tolist()
    return [plotly_value(v) for v in values or []]


def plotly_value(value):
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return value if abs(value) < 2**53 else str(value) if isinstance(value, int) else None
    return str(value)[:CHART_TEXT]
