"""Words that may surround the name of a page or folder in a question that says nothing else, by their role. Pure data.

The languages are English, German, French, Spanish, Portuguese, Italian, Dutch, Russian, Polish, Chinese, Japanese and Korean;
of others there are a few words. All words are case-folded. Words that say more (`not`, `how`, `with`, `from`, `add`) are in no group.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from knowledge.search.route.words import WHERE as ASKS_WHERE
from knowledge.search.route.words import WORDS

# Bits, because a word can have several roles: `list` is a verb and a noun.
FILL: Final = 1
ARTICLE: Final = 2
ONE: Final = 4
WHICH: Final = 8
INSIDE: Final = 16
OF: Final = 32
ABOUT: Final = 64
CALLED: Final = 128
OPEN: Final = 256
LIST: Final = 512
HEAD: Final = 1024
PARTS: Final = 2048
PAGE: Final = 4096
FOLDER: Final = 8192
FILE: Final = 16384
HOLDS: Final = 32768
MAY: Final = 65536
ME: Final = 131072
WHERE: Final = 262144
HERE: Final = 524288
ALL: Final = 1048576
KIND: Final = PAGE | FOLDER | FILE
_GROUPS = {
    FILL: """
        s is are give does do did there please all any every we me has have exist exists located
        found find ist sind gibt es da haben wir bitte mir uns alle aller alles befindet befinden sich findet
        man finde finden liegt liegen steht stehen est sont y il ont a-t-il t-il avons-nous nous est-ce qu tous
        toutes tout moi trouve trouvent se situe situés situées hay está están tenemos existen todo todos todas
        por favor encuentra encuentran há é são estão tem têm existem fica ficam c è ci sono trova trovano tutti
        tutte tutto er zijn staat staan vind vinden есть находится находятся все jest są znajduje się wszystkie
        finns finnes findes är je jsou var içinde you sie tu vous usted 请 有 所有 的 了 吗 那里 の を が は
        です ですか ます か ください すべて 全て あります ありますか あり ある ますか 里 里面 中 下 下面 在 に
        には の中 の中に の中には の下 内 内に 에 에는 안에 있나요 있어요 있습니까 있는 이 가 을 를 의 은 는
        """,
    ARTICLE: """
        the our my this these der die das den dem des unser unsere unseren unserem le la les l el los las
        nuestro nuestra nuestros nuestras o os as il lo gli i de het onze notre nos
        """,
    ONE: """
        a an ein eine einem einen einer eines un une una uno um uma een
        """,
    WHICH: """
        what whats which was welche welcher welches welchen welchem que qué cuál cuáles quel quelle quels quelles quoi
        quais qual quale quali cosa che wat welke что какие co jakie vad vilka hvad hva ne 什么 哪些 何 どんな
        무엇 뭐 무슨
        """,
    INSIDE: """
        in inside within under below on im innerhalb unter auf en dentro bajo dans sous na no nas nos em sob nel
        nella nelle nei sotto onder binnen в во внутри w we pod v i içinde 里 里面 中 下 下面 在 に には の中
        の中に の中には の下 内 内に 에 에는 안에
        """,
    OF: """
        of von vom de del du des d do da dos das di della delle dei degli van 的 の
        """,
    ABOUT: "about on for zum zur zu über sobre acerca sur à su over \u043e \u043e\u0431",  # and Russian `o`, `ob`
    CALLED: """
        called named titled namens genannt mit dem titel appelé appelée nommé llamada llamado chamada chamado
        chiamata chiamato genaamd
        """,
    OPEN: """
        open show display view see visit browse opens öffne öffnen zeig zeige zeigen anzeigen zeigt affiche
        afficher montre montre-moi montrer ouvre ouvrir muestra muéstrame muestrame mostrar abre abrir ver
        visualizar mostra mostre mostrami mostrare abra exibir apri aprire vedi toon openen bekijk bekijken laat
        zien открой открыть покажи показать pokaż otwórz öppna visa åbn vis göster aç 打开 显示 查看 看 開いて
        開く 開け 表示 表示して 表示する 見せて 見る して する 열어 열어줘 보여줘 보여 표시
        """,
    LIST: """
        list lists listing enumerate liste auflisten auflistung lister lista listar listado elenca elencare
        elenco lijst listagem enumera список перечисли wypisz 列出 列表 清单 一覧 목록
        """,
    HEAD: """
        contents content overview summary toc table outline inhalt inhalte inhaltsverzeichnis übersicht
        überblick contenu sommaire aperçu contenido contenidos índice resumen conteúdo sumário resumo contenuto
        indice sommario inhoud inhoudsopgave overzicht содержание содержимое обзор zawartość 内容 目录内容 概览
        概要 内訳 中身 の中身 目次 내용 목차
        """,
    PARTS: """
        anything everything alles tout todo tutto wszystko pages articles documents docs documentation files notes
        sections chapters folders subfolders directories wiki handbook seiten artikel dokumente dokus
        dokumentation dateien notizen abschnitte kapitel ordner unterordner handbuch fichiers chapitres dossiers
        páginas artículos documentos archivos ficheros notas secciones carpetas documentação arquivos ficheiros
        seções pastas pagine articoli documenti cartelle sezioni pagina's artikelen documenten capítulos
        capitoli hoofdstukken documentatie bestanden mappen secties страницы документы файлы папки разделы
        страниц документов файлов strony stron dokumenty pliki plików foldery 页面 文档 文件 ページ ドキュメント
        ファイル 페이지 문서 파일
        """,
    PAGE: """
        page article document doc seite artikel dokument página artículo documento pagina articolo страница
        страницу стр strona stronę 页面 页 文档 文章 ページ ドキュメント 記事 페이지 문서
        """,
    FOLDER: """
        folder directory subfolder ordner ordners verzeichnis verzeichnisses unterordner dossier répertoire
        carpeta directorio pasta diretório cartella map папка папке папку папки каталог каталоге folderu
        folderze katalog katalogu mapp mappe klasör 文件夹 目录 フォルダ フォルダー ディレクトリ 폴더
        """,
    PAGE | FOLDER: """
        section area chapter bereich abschnitt kapitel rubrique sección capítulo seção sezione sectie раздел
        раздела разделе 部分
        """,
    FILE: """
        file datei fichier archivo fichero arquivo ficheiro bestand файл plik
        """,
    HOLDS: """
        contain contains say says sagt dice diz zegt säger siger mówi
        enthält enthalten contient contiennent contiene contienen contém contêm contengono
        bevat bevatten innehåller indeholder содержит zawiera 包含 含む
        """,
    MAY: """
        can could would kannst könntest können peux pouvez puedes puede podes pode puoi può kun kunt
        """,
    ME: """
        ich
        """,
    HERE: """
        here hier ici aquí aqui qui 这里 ここ 여기
        """,
    ALL: """
        all every everything alle aller alles tous toutes tout todo todos todas tutti tutte tutto все wszystkie
        所有 すべて 全て
        """,
    WHERE: "wheres dov 在哪里 在哪 哪里 哪儿 どこ どこに 어디 어디에",
}
SECTIONS: Final = frozenset((
    "sections", "chapters", "abschnitte", "kapitel", "chapitres", "secciones", "capítulos", "seções", "capitoli",
    "sezioni", "secties", "hoofdstukken", "разделы",
))  # fmt: skip
"""Parts of a page; the other parts are those of a folder."""
EXISTS: Final = frozenset((
    "there", "exist", "exists", "have", "gibt", "haben", "hay", "existen", "tenemos", "a-t-il", "há", "temos", "existem", "ci", "er",
    "есть", "有", "ある", "あります", "ありますか", "있나요",
))  # fmt: skip
OF_ANY: Final = frozenset(("of", "von", "vom", "van"))
"""Words that lead from a page to what it belongs to; in other languages also to its name (`la page de configuration`)."""
GO: Final = frozenset(("go", "navigate", "jump"))
"""Verbs before `to`."""
AFTER_PORTUGUESE_A: Final = frozenset(("página", "pasta", "seção"))
"""Words before which `a` is the Portuguese article, and not the English one."""
COVERED: Final = frozenset(("en", "de", "fr", "es", "pt", "it", "nl", "ru", "pl", "zh", "ja", "ko"))
"""The languages of the groups. In others, any stop word may surround a name."""


def _by_word() -> dict[str, int]:
    found = {word: WHERE for word, group in WORDS.items() if group & ASKS_WHERE}
    for role, words in _GROUPS.items():
        for word in words.split():
            found[word] = found.get(word, 0) | role
    return found


ROLES: Final = MappingProxyType(_by_word())
"""The roles of each word, added up."""
