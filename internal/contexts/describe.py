# This runs once in each Python kernel, before the first code of a client. It adds two formats to what IPython's display
# makes of an object: a chart for figures of matplotlib, and a table for data frames of pandas and polars. Both are data:
# programs read them where people look at the picture or the HTML.
def _sandkasten_describe():
    try:
        shell = get_ipython()  # noqa: F821
        from IPython.core.formatters import BaseFormatter
        from traitlets import ObjectName, Unicode
    except (ImportError, NameError):
        return
    import math

    most_rows, most_columns, most_text, most_points, most_axes, most_series = 100, 50, 500, 1000, 16, 50

    def cell(value):
        if value is None or isinstance(value, bool):
            return value
        item = getattr(value, "item", None)
        if item is not None and getattr(value, "shape", None) == ():
            try:
                value = item()
            except Exception:
                pass
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if abs(value) < 2**53 else str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        text = str(value)
        if text in ("NaT", "<NA>"):
            return None
        return text if len(text) <= most_text else text[:most_text] + "..."

    def cells(values):
        return [cell(v) for v in values]

    def table(columns, types, rows, shape, index=None):
        found = {
            "columns": [{"name": str(n)[:most_text], "type": str(t)} for n, t in zip(columns, types)],
            "rows": [cells(r) for r in rows], "shape": [int(n) for n in shape],
        }
        if index is not None:
            found["index"] = cells(index)
        return found

    def of_pandas(frame):
        part = frame.iloc[:most_rows, :most_columns]
        return table(part.columns, part.dtypes, part.itertuples(index=False, name=None), frame.shape, part.index)

    def of_polars(frame):
        part = frame.head(most_rows)[:, :most_columns]
        return table(part.columns, part.dtypes, part.rows(), frame.shape)

    def series(kind, label, x, y):
        x, y = list(x), list(y)
        label = None if label is None or str(label).startswith("_") else str(label)[:most_text]
        return {"type": kind, "label": label, "points": len(x), "x": cells(x[:most_points]), "y": cells(y[:most_points])}

    def bars(axes, container):
        sideways = getattr(container, "orientation", "vertical") == "horizontal"
        axis = axes.yaxis if sideways else axes.xaxis
        names = {}
        if type(axis.get_major_formatter()).__name__ in ("StrCategoryFormatter", "FixedFormatter"):
            names = {float(at): text.get_text() for at, text in zip(axis.get_majorticklocs(), axis.get_ticklabels())}
        centers, lengths = [], []
        for bar in container.patches:
            low, size = (bar.get_y(), bar.get_height()) if sideways else (bar.get_x(), bar.get_width())
            center = float(low + size / 2)
            centers.append(names.get(round(center, 9), center))
            lengths.append(bar.get_width() if sideways else bar.get_height())
        return series("horizontal_bar" if sideways else "bar", container.get_label(), centers, lengths)

    def of_axes(axes):
        found = [series("line", line.get_label(), *line.get_data(orig=True)) for line in axes.get_lines()]
        for container in axes.containers:
            if type(container).__name__ == "BarContainer":
                found.append(bars(axes, container))
        for collection in axes.collections:
            if type(collection).__name__ == "PathCollection":
                points = collection.get_offsets()
                found.append(series("scatter", collection.get_label(), points[:, 0], points[:, 1]))
        wedges = [p for p in axes.patches if type(p).__name__ == "Wedge"]
        if wedges:
            shares = [(w.theta2 - w.theta1) / 360 for w in wedges]
            found.append(series("pie", None, [w.get_label() for w in wedges], shares))
        found.extend({"type": "image", "label": None, "shape": [int(n) for n in i.get_size()]} for i in axes.images)
        kinds = {s["type"] for s in found}
        return {
            "type": kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "empty", "title": axes.get_title(),
            "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel(), "x_scale": axes.get_xscale(), "y_scale": axes.get_yscale(),
            "series": found[:most_series],
        }

    def of_figure(figure):
        axes = [of_axes(a) for a in figure.axes[:most_axes]]
        title = getattr(figure, "_suptitle", None)
        title = title.get_text() if title is not None else axes[0]["title"] if len(axes) == 1 else ""
        kinds = {a["type"] for a in axes}
        return {"library": "matplotlib", "type": kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "empty", "title": title, "axes": axes}

    def quietly(make):
        def made(value):
            try:
                return make(value)
            except Exception:  # the picture is worth more than its description
                return None
        return made

    class TableFormatter(BaseFormatter):
        format_type = Unicode("application/vnd.sandkasten.table+json")
        print_method = ObjectName("_repr_sandkasten_table_")
        _return_type = dict

    class ChartFormatter(BaseFormatter):
        format_type = Unicode("application/vnd.sandkasten.chart+json")
        print_method = ObjectName("_repr_sandkasten_chart_")
        _return_type = dict

        def pop(self, typ, default=None):
            return default  # the inline backend takes figures from all formatters, to set its own

    tables, charts = TableFormatter(parent=shell.display_formatter), ChartFormatter(parent=shell.display_formatter)
    for module in ("pandas.core.frame", "pandas"):
        tables.for_type_by_name(module, "DataFrame", quietly(of_pandas))
    for module in ("polars.dataframe.frame", "polars"):
        tables.for_type_by_name(module, "DataFrame", quietly(of_polars))
    charts.for_type_by_name("matplotlib.figure", "Figure", quietly(of_figure))
    for formatter in (tables, charts):
        shell.display_formatter.formatters[formatter.format_type] = formatter


_sandkasten_describe()
del _sandkasten_describe
