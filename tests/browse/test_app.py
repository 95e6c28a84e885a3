"""The application under a reader's hands: keys, mouse, both languages."""

import pytest
from browse_support import browse, press, screen, settle, shelf
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Tree

from tracer.browse.app import BrowseApp
from tracer.browse.books import Shelf
from tracer.browse.contents import ContentsTree
from tracer.browse.keys import KEYS
from tracer.browse.source_view import SourceView
from tracer.errors import Unsupported


def where(app: BrowseApp) -> str:
    assert app.spot is not None
    return f"{app.spot.file}:{app.spot.span.line} {app.spot.code}"


def test_it_begins_at_the_first_step_with_its_formula_and_explanation() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        assert where(app) == "transformers/model.py:7 self.q_proj(hidden_states)"
        shown = screen(app)
        assert "project" in shown
        assert "Q = x·W_qᵀ" in shown
        assert "Values" not in shown  # there is no trace

    browse(act)


def test_the_tree_says_which_command_brings_what_is_not_here() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        shown = screen(app)
        assert "vllm  not here" in shown
        for name in ("vllm", "sglang", "flash-attn"):
            assert f"trace vendor sync {name}"[:24] in shown

    browse(act, (120, 40))


def test_choosing_what_is_not_here_says_it_in_full() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        tree = app.query_one(ContentsTree)
        missing = next(node for node in tree._every() if node.data is not None and node.data.kind == "missing")
        tree.select_node(missing)
        tree.action_select_cursor()
        await settle(app, pilot)
        assert "trace vendor sync vllm" in " ".join(screen(app).split())

    browse(act, (160, 40))


def test_a_value_is_walked_to_the_kernel_and_back_across_files() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "up", "up", "up")
        seen = []
        for _ in range(4):
            seen.append(where(app))
            await press(app, pilot, "right_square_bracket")
        assert seen == [
            "transformers/model.py:4 self.head_dim**-0.5",
            "transformers/model.py:10 self.scaling",
            "transformers/kernel.py:1 scaling",
            "transformers/kernel.py:2 scaling",
        ]
        assert where(app) == seen[-1]  # the way ends at the kernel's argument
        assert "ends here" in list(app._notifications)[-1].message
        for place in seen[-2::-1]:
            await press(app, pilot, "left_square_bracket")
            assert where(app) == place
        await press(app, pilot, "left_square_bracket")
        assert "begins here" in list(app._notifications)[-1].message

    browse(act)


def test_what_is_on_no_way_is_said_to_be() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "right_square_bracket")
        assert where(app) == "transformers/model.py:7 self.q_proj(hidden_states)"
        assert "passes through" in list(app._notifications)[-1].message

    browse(act)


def test_back_returns_to_where_the_jump_began() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "N", "right_square_bracket", "right_square_bracket", "u")
        assert where(app) == "transformers/model.py:10 self.scaling"
        await press(app, pilot, "u")
        assert where(app) == "transformers/model.py:4 self.head_dim**-0.5"

    browse(act)


def test_another_framework_stands_beside_and_follows() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        beside = app.query_one("#beside", SourceView)
        assert not beside.display
        await press(app, pilot, "b")
        assert beside.display
        assert (beside.line, beside.current and beside.current.code) == (6, "self.qkv_proj(hidden_states)")
        await press(app, pilot, "N")  # to the scale
        assert (beside.line, beside.current and beside.current.code) == (3, "head_dim ** -0.5")
        await press(app, pilot, "right_square_bracket")  # an expression without a name of its own: the way says
        assert (beside.line, beside.current and beside.current.code) == (3, "head_dim ** -0.5")
        assert "the nearest step" in screen(app)
        await press(app, pilot, "up", "up", "up", "home")
        assert "nano-vllm 1.0: nothing there corresponds" in screen(app)
        await press(app, pilot, "b")  # after the last framework: none
        assert not beside.display

    browse(act)


@pytest.mark.parametrize(("size", "aside"), [((80, 24), False), ((160, 45), False), ((200, 50), True)])
def test_on_a_broad_screen_both_frameworks_stand_side_by_side(size: tuple[int, int], aside: bool) -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "b")
        source, beside = app.query_one("#source").region, app.query_one("#beside").region
        assert (source.y == beside.y, source.x == beside.x) == (aside, not aside)

    browse(act, size)


def test_from_beside_the_reader_goes_over_and_comes_back() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "b", "tab", "enter")
        assert where(app) == "nanovllm/model.py:6 self.qkv_proj(hidden_states)"
        assert app.focused is app.query_one("#source")
        assert "transformers 1.0  project" in screen(app)  # the two have changed places
        await press(app, pilot, "u")
        assert where(app) == "transformers/model.py:7 self.q_proj(hidden_states)"

    browse(act)


def test_ctrl_c_ends_it_as_interrupted() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+c")

    assert browse(act).return_code == 130


def test_a_question_mark_tells_every_key() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "question_mark")
        told = list(app._notifications)[-1].message
        for key in ("]", "N", "Tab", "Enter", "Ctrl-C", "PgUp"):
            assert f"{key}  " in told or f"{key} " in told
        assert "the marked expression before" in told

    browse(act)


def test_below_150_columns_the_source_has_the_width_beside_the_tree() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        view = app.query_one("#source", SourceView)
        assert view.size.width > 75
        assert view.scroll_offset.x == 0

    browse(act, (120, 40))


def test_a_line_whose_head_is_out_of_sight_says_so() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        view = app.query_one("#source", SourceView)
        view.scroll_to(20, 0, animate=False, force=True)
        await settle(app, pilot)
        assert view.scroll_offset.x > 0
        assert "‹" in view.render_line(3).text
        view.scroll_to(0, 0, animate=False, force=True)
        await settle(app, pilot)
        assert "‹" not in view.render_line(3).text

    browse(act, (60, 24))


def test_q_ends_it() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await pilot.press("q")

    assert browse(act).return_code == 0


def test_the_mouse_chooses_an_expression_and_presses_the_keys_of_the_bar() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        view = app.query_one("#source", SourceView)
        await pilot.click(view, offset=(8 + 30, 4 - 1 - view.scroll_offset.y))
        await settle(app, pilot)
        assert where(app) == "transformers/model.py:4 self.head_dim**-0.5"
        assert (view.line, view.column) == (4, 30)
        bar = screen(app).splitlines()[-1]
        await pilot.click("#keys", offset=(bar.index("中文"), 0))
        await settle(app, pilot)
        assert app.language == "zh"

    browse(act)


def test_the_mouse_opens_a_place_of_the_tree() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        tree = app.query_one(ContentsTree)
        row = next(y for y, line in enumerate(screen(app).splitlines()) if "2 scale.call" in line)
        await pilot.click(tree, offset=(10, row))
        await settle(app, pilot)
        assert where(app) == "transformers/kernel.py:2 scaling"

    browse(act)


def test_a_way_is_followed_when_it_is_unfolded() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        tree = app.query_one(ContentsTree)
        way = next(node for node in tree._every() if node.data is not None and node.data.value == "scale")
        way.expand()
        await settle(app, pilot)
        assert [str(node.label) for node in way.children] == ["4 scale", "10 self.scaling", "1 scaling", "2 scale.call"]

    browse(act)


def test_search_goes_to_a_place_or_a_line() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "slash", *"scale")
        hits = app.screen.query_one(OptionList)
        assert "scale" in str(hits.get_option_at_index(0).prompt)
        await press(app, pilot, "enter")
        assert where(app) == "transformers/model.py:4 self.head_dim**-0.5"
        await press(app, pilot, "slash", *"def_forward".replace("_", " "), "down", "enter")
        assert app.book is not None
        assert app.book.framework == "nano-vllm"
        assert app.query_one("#source", SourceView).line == 5

    browse(act)


def test_search_can_be_left_and_says_when_nothing_is_found() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "slash", *"qqq")
        assert "0 found" in screen(app)
        await press(app, pilot, "enter")
        assert app.screen.query(Input)
        await press(app, pilot, "escape")
        assert where(app) == "transformers/model.py:7 self.q_proj(hidden_states)"

    browse(act)


def test_both_languages_without_starting_again() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "l")
        shown = screen(app)
        for words in ("溯源", "三个权重矩阵", "未取得", "值的路径", "上游"):
            assert words in shown
        for words in ("kernel [", "Formulas", "not here"):
            assert words not in shown
        await press(app, pilot, "l")
        assert "Formulas" in screen(app)

    browse(act, (160, 45))


def test_a_trace_puts_shape_and_values_beside_the_code() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        shown = screen(app)
        assert "q_proj" in shown
        assert "T=5" in shown
        await press(app, pilot, "N")
        assert "value  0.3535533905932738" in screen(app)

    browse(act, (160, 45), traced=True)


def test_the_tree_makes_room_for_the_source() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        width = app.query_one("#source").size.width
        await press(app, pilot, "t")
        assert app.query_one("#source").size.width == width + 27
        await press(app, pilot, "t")
        assert app.query_one("#source").size.width == width

    browse(act)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_key_of_the_bar_fits_80_columns(language: str) -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        bar = screen(app).splitlines()[-1]
        assert "…" not in bar
        assert all(f"{key} " in bar for key, _, _ in KEYS)

    browse(act, language=language)


def test_places_that_cannot_be_found_leave_the_source_to_be_read() -> None:
    def broken() -> None:
        raise Unsupported("source.not_installed", package="transformers")

    stand: Shelf = shelf()
    stand.book("transformers").find_places = broken  # type: ignore[method-assign]

    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        shown = screen(app)
        assert "query_states = self.q_proj" in shown
        assert "transformers is not installed" in " ".join(shown.split())

    browse(act, (160, 40), on=stand)


def test_without_the_first_framework_the_application_still_says_what_to_do() -> None:
    stand = shelf()
    stand._books["transformers"] = Unsupported("source.not_installed", package="transformers")

    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        assert "transformers is not installed" in " ".join(screen(app).split())
        await press(app, pilot, "right_square_bracket", "y", "b", "u", "n")
        assert isinstance(app.focused, Tree)

    browse(act, (160, 40), on=stand)


def test_what_is_copied_is_shown() -> None:
    async def act(app: BrowseApp, pilot: Pilot[None]) -> None:
        await press(app, pilot, "y")
        assert app.clipboard.startswith("transformers 1.0 · transformers/model.py:7 (sha256 ")
        assert list(app._notifications)[-1].message == app.clipboard

    browse(act)
